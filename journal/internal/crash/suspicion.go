package crash

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/journal/internal/format"
)

// Suspicion is what speaks against a position that was running when the process died.
// It ends when the run ends: whatever its outcome, it did not kill the process. Whoever
// replaces the payload passes it on to the one that takes its place.
//
// The rule: one death is no proof. What was running at two deaths, and was not acquitted between them, is held
// back for a while at the next start, and then runs without others of its kind. A
// death while it is held acquits it, unless the process died within a second, or of what
// was running at an earlier death, too; and a death so soon after its start that chance is
// next to excluded convicts it.
//
// A process that was killed from outside can't be told from one that a job ended
// with os.Exit: the system keeps neither. But an outsider does not wait until a
// certain job begins.
type Suspicion struct {
	Deaths int           // at which it was running, since one acquitted it
	Age    time.Duration // the longest that it had been running then
	// Odds are how many times likelier its deaths are if it is the cause than
	// if they came by chance.
	Odds  float64
	epoch uint64 // of the last death
}

const (
	// beyondDoubt are the odds that convict. Fifty kills at random moments, with 16
	// jobs that never end, convict one of them in one storm of a hundred at worst,
	// and mostly in none: see TestAStormOfKillsConvictsNobody.
	beyondDoubt = 30
	// holdFactor is for how many times its age a suspect is held: five times
	// what is needed, because the age is a different one each time.
	holdFactor  = 5 * beyondDoubt
	longestHold = 10 * time.Second
	// alibi is how long a process has to have lived for its death to speak for those
	// who were held. One that died sooner may have died of another job that ends
	// processes: two of them would acquit each other for ever.
	alibi = time.Second
	// leastAge is what an age is taken for at least: a busy machine lets
	// a process live as long before it dies.
	leastAge = 20 * time.Millisecond
	// leastOdds is what a death counts at which it was the only suspect, however
	// late it came: about seventy of them in a row are enough. Fewer would be
	// reached by a job of an hour under a supervisor that kills every ten seconds.
	leastOdds = 1.05
	// memoryOdds are how much likelier it was the job when memory ran out: it may be
	// that of all others, and of other programs.
	memoryOdds = 4
)

// Guilty reports whether it is the cause, beyond reasonable doubt.
func (s Suspicion) Guilty() bool { return s.Odds >= beyondDoubt }

// Strong reports whether it has to run without others that are strongly
// suspected: it was running at two deaths, and may have caused them.
func (s Suspicion) Strong() bool { return s.Deaths >= 2 && !s.Guilty() }

// Exceeds reports whether more speaks against it than against another one.
func (s Suspicion) Exceeds(other Suspicion) bool {
	return s.Odds > other.Odds || s.Odds == other.Odds && s.Deaths > other.Deaths
}

// Hold is how long the process has to live without it, so that its death right
// after it has begun says enough. At most 10 s.
func (s Suspicion) Hold() time.Duration {
	return min(time.Duration(holdFactor/max(s.Odds, 1)*float64(max(s.Age, leastAge))), longestHold)
}

// Alone is how long it runs before another strong suspect may run beside it: by
// then its death would not convict it any more. At most 10 s.
func (s Suspicion) Alone() time.Duration {
	return min(max(2*s.Age, s.Hold()/beyondDoubt), longestHold)
}

// judge returns what speaks against whom after a death.
func (d *Death) judge(before map[format.Position]Suspicion) map[format.Position]Suspicion {
	after := make(map[format.Position]Suspicion)
	maps.Copy(after, before)
	switch d.Cause {
	case CauseOutside:
		return after
	case CauseJob:
		s := after[d.named[0]]
		s.Deaths, s.Odds, s.epoch = s.Deaths+1, beyondDoubt, d.epoch
		after[d.named[0]] = s
		return after
	}
	blamed := maps.Clone(d.ran)
	if len(d.named) > 0 { // a batch: nothing that ran beside it
		maps.DeleteFunc(blamed, func(p format.Position, _ ran) bool { return !slices.Contains(d.named, p) })
	}
	// What was running at a former death, too, and has not ended since may be the cause of this one,
	// which then acquits nobody: three causes would acquit each other for ever.
	known := slices.DeleteFunc(slices.Collect(maps.Keys(blamed)), func(p format.Position) bool { _, was := before[p]; return !was })
	if len(known) == 0 && d.lived >= alibi {
		for p, s := range before {
			if !s.Guilty() {
				after[p] = Suspicion{epoch: d.epoch} // it died without it
			}
		}
	}
	strong := slices.DeleteFunc(known, func(p format.Position) bool { return !before[p].Strong() })
	explained := false
	if len(strong) == 1 {
		s := after[strong[0]]
		odds := d.odds(blamed[strong[0]], s.Age)
		s.Odds, explained = max(s.Odds, 1)*odds, odds >= beyondDoubt
		after[strong[0]] = s
	}
	for p, r := range blamed {
		if explained && strong[0] != p {
			continue // it was beside the one that did it
		}
		s := after[p]
		s.Deaths, s.Age, s.epoch = s.Deaths+1, max(s.Age, r.age), d.epoch
		after[p] = s
	}
	return after
}

// odds are how much likelier the death is if what ran is its cause, given the age
// at former deaths. By chance it comes at any moment of a life, and the process had
// lived without it for long; it does not count that chance struck much earlier now,
// nor that others had their turn before it.
func (d *Death) odds(r ran, former time.Duration) float64 {
	odds := max(float64(min(r.began, longestHold))/float64(max(r.age, former)), leastOdds)
	if d.Cause == CauseMemory {
		odds *= memoryOdds
	}
	return odds
}

// SuspectPrefix is followed by a position in hexadecimal. The value is deaths,
// the epoch of the last one, age in ns, and odds: 8 bytes each. The first version
// had deaths and epoch only.
const SuspectPrefix = "suspect/"

// SuspectKey is the state key of a suspect.
func SuspectKey(p format.Position) string { return fmt.Sprintf("%s%016x", SuspectPrefix, uint64(p)) }

// Cleared is the [Set] that takes the suspicion off a position.
func Cleared(p format.Position) format.Set { return format.Set{Key: SuspectKey(p), Value: nil} }

// Set writes down what speaks against a position.
func (s Suspicion) Set(p format.Position) format.Set {
	numbers := []uint64{uint64(s.Deaths), s.epoch, uint64(s.Age), math.Float64bits(s.Odds)}
	v, _ := binary.Append(nil, binary.BigEndian, numbers)
	return format.Set{Key: SuspectKey(p), Value: v}
}

// ParseSuspicion reads a state key of a suspect; it matches ErrCorrupt.
func ParseSuspicion(key string, value []byte) (p format.Position, s Suspicion, err error) {
	number, err := strconv.ParseUint(strings.TrimPrefix(key, SuspectPrefix), 16, 64)
	n := len(value)
	if p = format.Position(number); err != nil || key != SuspectKey(p) || n != 16 && n != 32 {
		return 0, s, format.Damaged("the state key %q makes no sense", key)
	}
	s.Deaths, s.epoch = int(binary.BigEndian.Uint64(value)), binary.BigEndian.Uint64(value[8:])
	if n == 32 {
		s.Age = time.Duration(binary.BigEndian.Uint64(value[16:]))
		s.Odds = math.Float64frombits(binary.BigEndian.Uint64(value[24:]))
	}
	if s.Deaths < 0 || s.Age < 0 || !(s.Odds >= 0) {
		return 0, s, format.Damaged("the value of the state key %q makes no sense", key)
	}
	return p, s, nil
}

package shard

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

var update = flag.Bool("update", false, "write what the scripts in testdata do as what they should do")

// TestScripts runs testdata/*.txt. A line is a command; the indented lines
// below it are what it does. Times are seconds since the script began.
//
//	config merge=KeepLast failure=BlockFailed exhausted=Halt fresh=PullRetry retries=3 concurrency=2 batch=2 max=1 single=1 due=PushDue quiet=5 wait=20 throttle=10
//	put ID PAYLOAD [score=N] [due=T]     one payload is accepted; score and due default to now
//	at T                                 the clock goes on
//	take [NAME]                          a worker takes a run
//	start NAME [ID]                      it starts an item: it is done with those before
//	pass NAME ID                         it is done with a payload of the item, and goes to the next one
//	VERDICT NAME ID [in=T] [error=TEXT] [parts=INDEX:VERDICT|TEXT,…]
//	finish NAME                          it gives the run back
//	run VERDICT [in=T] [error=TEXT] [parts=INDEX:VERDICT|TEXT,…] [done=N]    all of that, for every item
//	now ID · restore ID PAYLOAD · reclaim · next · show · counts · morgue
//	crash [shards=N]                     all is committed, then a crash; says which lanes are not as before
func TestScripts(t *testing.T) {
	eachScript(t, func(t *testing.T, file string, lines []string) {
		got := strings.Join(runScript(t, lines, false), "\n") + "\n"
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			return
		}
		require.Equal(t, strings.Join(lines, "\n")+"\n", got)
	})
}

// TestScriptsWithReplay has a crash before every command for which no run is out.
// It must not show.
func TestScriptsWithReplay(t *testing.T) {
	eachScript(t, func(t *testing.T, _ string, lines []string) {
		require.Equal(t, runScript(t, lines, false), runScript(t, lines, true))
	})
}

func eachScript(t *testing.T, f func(t *testing.T, file string, lines []string)) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			f(t, file, strings.Split(strings.TrimRight(string(text), "\n"), "\n"))
		})
	}
}

// script is one script on its way.
type script struct {
	*rig
	runs map[string]*Run
	out  []string
}

// runScript returns the script with what it does instead of what it should.
func runScript(t *testing.T, lines []string, replay bool) []string {
	s := &script{rig: newRig(t, Config{Merge: MergeMinScore}, 1), runs: make(map[string]*Run)}
	defer func() { s.close() }()
	s.record = s.traceChange
	for _, line := range lines {
		if strings.HasPrefix(line, "\t") {
			continue
		}
		if replay && len(s.runs) == 0 {
			pace := s.cores[0].pace
			s.flush()
			s.rig.crash(1)
			s.cores[0].pace = pace // how much goes into a run is not a promise
		}
		s.out = append(s.out, line)
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			s.command(words[0], parseArgs(words[1:]))
			s.check()
		}
	}
	return s.out
}

func (s *script) trace(format string, args ...any) {
	s.out = append(s.out, "\t"+fmt.Sprintf(format, args...))
}

func (s *script) traceChange(c *journal.Change) {
	for _, ref := range c.Ended {
		var e journal.Entry
		mustRead(ref, &e)
		// States are told by their job: their positions don't matter.
		if e.Kind == journal.KindEnqueued {
			s.trace("ended #%d", ref.Position())
		}
	}
	for i := range c.States {
		e := &c.States[i].Entry
		line := fmt.Sprintf("state of %s: due %s, retry %d", e.ID, seconds(e.Due), e.Retry)
		if rests(e) {
			line += ", rests"
		} else if versions(e) {
			line += fmt.Sprintf(", has run #%d/%v", e.Failed[3], math.Float64frombits(uint64(e.Failed[2])))
		} else if gathers(e) {
			line += fmt.Sprintf(", limit %s", seconds(int64(e.Failed[1])))
		} else if restsUntil(e) {
			line += fmt.Sprintf(", rests until %s", seconds(int64(e.Failed[1])))
		} else if len(e.Failed) > 0 {
			line += fmt.Sprintf(", failed %v", e.Failed)
		}
		if len(e.Error) > 0 {
			line += fmt.Sprintf(", error %q", e.Error)
		}
		if e.Halted {
			line += ", halted"
		}
		s.trace("%s", line)
	}
	for _, at := range c.Exhumed {
		s.trace("superseded dead #%d", at)
	}
	for _, b := range c.Buried {
		s.trace("buried #%d: %s", b.Ref.Position(), b.Reason)
	}
}

// args are the words after a command: plain ones and key=value.
type args struct {
	words []string
	named map[string]string
}

func parseArgs(words []string) args {
	a := args{named: make(map[string]string)}
	for _, w := range words {
		if key, value, ok := strings.Cut(w, "="); ok {
			a.named[key] = value
		} else {
			a.words = append(a.words, w)
		}
	}
	return a
}

func (a args) word(i int) string {
	if i < len(a.words) {
		return a.words[i]
	}
	return ""
}

// ns is a named argument in seconds, or a default in nanoseconds.
func (a args) ns(name string, absent int64) int64 {
	if a.named[name] == "" {
		return absent
	}
	return int64(a.number(name) * 1e9)
}

func (a args) number(name string) float64 {
	if a.named[name] == "" {
		return 0
	}
	f, err := strconv.ParseFloat(a.named[name], 64)
	if err != nil {
		panic(err)
	}
	return f
}

func (s *script) command(name string, a args) {
	switch name {
	case "config":
		s.configure(a)
	case "put":
		e := journal.Entry{ID: []byte(a.word(0)), Payload: []byte(a.word(1)), Due: a.ns("due", s.now), Score: float64(s.now) / 1e9}
		if a.named["score"] != "" {
			e.Score = a.number("score")
		}
		s.arrived(s.put(e)[0])
	case "restore":
		s.arrived(s.restore(s.buried(a.word(0), a.word(1)), s.now))
	case "at":
		f, err := strconv.ParseFloat(a.word(0), 64)
		require.NoError(s.t, err)
		s.now = int64(f * 1e9)
	case "take":
		s.take(cmp.Or(a.word(0), "1"))
	case "start":
		r := s.runs[a.word(0)]
		for i := range r.Items {
			if it := &r.Items[i]; a.word(1) == "" || it.ID == a.word(1) {
				s.trace("%s started: %v", it.ID, it.start(i))
			}
		}
	case "pass":
		for _, it := range s.items(a) {
			s.trace("next: %v", it.Pass())
		}
	case "finish":
		s.finish(a.word(0))
	case "run":
		if s.take("run") {
			for i, it := range s.items(args{words: []string{"run"}}) {
				require.True(s.t, it.start(i))
				for range int(a.number("done")) {
					require.True(s.t, it.Pass())
				}
				done := it.Outcome.Done
				it.Outcome = outcome(a.word(0), a)
				it.Outcome.Done = done
			}
			s.finish("run")
		}
	case "now":
		ok := s.core(a.word(0)).RunNow(a.word(0), s.now, true)
		s.core(a.word(0)).Record(s)
		s.trace("%v", ok)
	case "crash":
		s.crashed(a)
	default:
		if !s.question(name) {
			for _, it := range s.items(a) {
				done := it.Outcome.Done
				it.Outcome = outcome(name, a)
				it.Outcome.Done = done
			}
		}
	}
}

// buried finds the oldest of these in the morgue.
func (s *script) buried(id, payload string) (at journal.Position) {
	for p, b := range s.morgue() {
		if string(b.Entry.ID) == id && string(b.Entry.Payload) == payload && (at == 0 || p < at) {
			at = p
		}
	}
	return at
}

// question is a command that changes nothing (but reclaim, which may).
func (s *script) question(name string) bool {
	switch name {
	case "reclaim":
		for _, c := range s.cores {
			s.trace("again at %s", seconds(c.reclaim(s.now)))
			c.Record(s)
		}
	case "next":
		for _, c := range s.cores {
			_, ok := c.ready(s.now)
			s.trace("due %s, ready %v", seconds(c.NextDue()), ok)
		}
	case "show":
		for _, line := range s.lanes() {
			s.trace("%s", line)
		}
	case "counts":
		for _, c := range s.cores {
			n := c.Counts()
			s.trace("jobs %d, payloads %d, retrying %d, halted %d, running %d", n.Jobs, n.Payloads, n.Retrying, n.Halted, n.Running)
		}
	case "morgue":
		m := s.morgue()
		var ps []journal.Position
		for p := range m {
			ps = append(ps, p)
		}
		slices.Sort(ps)
		for _, p := range ps {
			s.trace("%s %s#%d/%v: retry %d, at %s, %s", m[p].Entry.ID, m[p].Entry.Payload, p, m[p].Entry.Score, m[p].Retry, seconds(m[p].At), m[p].Reason)
		}
	default:
		return false
	}
	return true
}

func (s *script) configure(a args) {
	named := func(key string, names ...string) uint8 {
		i := max(0, slices.Index(names, a.named[key]))
		require.True(s.t, a.named[key] == "" || a.named[key] == names[i], "%s=%s", key, a.named[key])
		return uint8(i)
	}
	s.cfg = Config{
		Merge:       (MergeMinScore + Merge(named("merge", "MinScore", "KeepFirst", "KeepLast", "Supersede", "KeepAll"))) % (MergeSupersede + 1),
		Block:       named("failure", "MergeFailed", "BlockFailed") == 1,
		Pull:        named("fresh", "WaitWithRetry", "PullRetry") == 1,
		MaxRetries:  int(a.number("retries")),
		Concurrency: int(a.number("concurrency")),
		BatchSize:   int(a.number("batch")),
		MaxPayloads: int(a.number("max")),
		Single:      a.number("single") == 1,
		Quiet:       time.Duration(a.ns("quiet", 0)),
		MaxWait:     time.Duration(a.ns("wait", 0)),
		Throttle:    time.Duration(a.ns("throttle", 0)),
	}
	exhausted, due := named("exhausted", "BuryOldest", "BuryAll", "Halt"), named("due", "KeepDue", "PullDue", "PushDue")
	s.cfg.BuryAll, s.cfg.Halt, s.cfg.DuePull, s.cfg.DuePush = exhausted == 1, exhausted == 2, due == 1, due == 2
	s.cores = []*Core{NewCore(s.queue, s.cfg)}
}

func (s *script) arrived(a *arrival) {
	if a.into != 0 {
		s.trace("#%d merged into #%d", a.entry.Position, a.into)
	} else {
		s.trace("#%d", a.entry.Position)
	}
}

func (s *script) take(name string) bool {
	c := s.cores[0]
	r := c.NewRun()
	if !c.Take(s.now, r) {
		s.trace("nothing")
		return false
	}
	c.Record(s)
	s.runs[name] = r
	for i := range r.Items {
		it := &r.Items[i]
		line := fmt.Sprintf("%s %s, due %s, retry %d", it.ID, payloadsText(it.Payloads), seconds(it.Due), it.Retry)
		if it.LastError != "" {
			line += fmt.Sprintf(", error %q", it.LastError)
		}
		s.trace("%s", line)
	}
	return true
}

// items are those of a run, or one of them.
func (s *script) items(a args) (items []*Item) {
	r := s.runs[a.word(0)]
	require.NotNil(s.t, r, "no run %q", a.word(0))
	for i := range r.Items {
		if a.word(1) == "" || r.Items[i].ID == a.word(1) {
			items = append(items, &r.Items[i])
		}
	}
	require.NotEmpty(s.t, items, "%v", a.words)
	return items
}

func (s *script) finish(name string) {
	r := s.runs[name]
	delete(s.runs, name)
	s.cores[0].Finish(s.now, r)
	s.cores[0].Record(s)
}

var verdicts = map[string]Verdict{
	"unstarted": VerdictUnstarted, "done": VerdictDone, "failed": VerdictFailed, "snoozed": VerdictSnoozed,
	"interrupted": VerdictInterrupted, "canceled": VerdictCanceled, "discarded": VerdictDiscarded,
}

func outcome(verdict string, a args) Outcome {
	v, ok := verdicts[verdict]
	if !ok {
		panic("no verdict or command " + verdict)
	}
	out := Outcome{Verdict: v, Delay: time.Duration(a.ns("in", 0)), Error: a.named["error"]}
	for s := range strings.SplitSeq(a.named["parts"], ",") {
		if index, text, ok := strings.Cut(s, ":"); ok {
			i, err := strconv.Atoi(index)
			if err != nil {
				panic(err)
			}
			out.Parts = append(out.Parts, Part{Index: i, Verdict: cmp.Or(verdicts[text], VerdictCanceled), Error: text})
		}
	}
	return out
}

func (s *script) crashed(a args) {
	s.flush()
	before := s.lanes()
	clear(s.runs)
	s.rig.crash(max(1, int(a.number("shards"))))
	for _, line := range before {
		if !slices.Contains(s.lanes(), line) {
			s.trace("- %s", line)
		}
	}
	for _, line := range s.lanes() {
		if !slices.Contains(before, line) {
			s.trace("+ %s", line)
		}
	}
}

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"
)

// proof is one promise that is put to the test again and again.
type proof struct {
	name  string
	unit  string
	short int // units per push
	long  int // units with STRAND_LONG=1
	// lacks says why the proof can't be made here; nil or "" when it can.
	lacks func() string
	run   func(*campaign) error
}

var proofs = []proof{
	{"kill", "lives", 30, 25_000, nil, killProof},
	{"image", "images", 1_000, 1_000_000, lacksStrace, imageProof},
	{"syscall", "sweeps over every call", 1, 20, lacksSupervisor, syscallProof},
	{"disk", "small disks", 3, 1_000, lacksSmallDisk, diskProof},
	{"slow", "disks that hang", 2, 50, lacksSupervisor, slowProof},
	{"poison", "jobs that kill", 4, 1_000, nil, poisonProof},
	{"stop", "stops", 100, 10_000, nil, stopProof},
	{"locks", "lives", 20, 10_000, nil, lockProof},
	{"chain", "lives", 10, 200, nil, chainProof},
}

func main() {
	beChild()
	pattern := flag.String("run", ".", "`regexp` of the proofs to make: kill, image, syscall, disk, slow, poison, stop, locks, chain")
	each := flag.Duration("for", 0, "how long to repeat each proof")
	cycles := flag.Int("cycles", 0, "how often to repeat each proof (default: as often as a push does)")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the first trial")
	asJSON := flag.Bool("json", false, "print a line of JSON per proof")
	flag.Parse()
	wanted, err := regexp.Compile(*pattern)
	if err != nil || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "soak: -run:", err, flag.Args())
		os.Exit(2)
	}
	failed, made := false, 0
	for _, p := range proofs {
		if !wanted.MatchString(p.name) {
			continue
		}
		made++
		failed = !soak(p, *seed, *cycles, *each, *asJSON) || failed
	}
	if made == 0 {
		fmt.Fprintln(os.Stderr, "soak: -run: no proof has such a name")
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

func soak(p proof, seed uint64, cycles int, each time.Duration, asJSON bool) bool {
	until := time.Time{}
	switch {
	case each > 0:
		until = time.Now().Add(each)
	case cycles == 0:
		cycles = p.short
	}
	c := newCampaign(p, seed, cycles, until)
	why := ""
	if p.lacks != nil {
		why = p.lacks()
	}
	var err error
	if why == "" {
		err = p.run(c)
	}
	report(c, seed, why, err, asJSON)
	return err == nil
}

func report(c *campaign, seed uint64, skipped string, err error, asJSON bool) {
	took := time.Since(c.start)
	if asJSON {
		text := ""
		if err != nil {
			text = err.Error()
		}
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
			"proof": c.proof, "unit": c.unit, "done": c.Done, "seed": seed, "seconds": took.Seconds(),
			"counts": c.Counts, "peaks": c.Peaks, "skipped": skipped, "failed": text,
		})
		return
	}
	if skipped != "" {
		fmt.Printf("%-8s skipped: %s\n", c.proof, skipped)
		return
	}
	verdict := "0 promises broken"
	if err != nil {
		verdict = "BROKEN: " + err.Error()
	}
	fmt.Printf("%-8s %d %s in %.1f s from seed %d: %s\n", c.proof, c.Done, c.unit, took.Seconds(), seed, verdict)
	for _, line := range c.lines() {
		fmt.Println("         " + line)
	}
}

// lines are the tallies for people.
func (c *campaign) lines() (lines []string) {
	for name, n := range c.Counts {
		lines = append(lines, fmt.Sprintf("%s: %d", name, n))
	}
	for name, n := range c.Peaks {
		lines = append(lines, fmt.Sprintf("%s: %d", name, n))
	}
	slices.Sort(lines)
	return lines
}

// longTier reports whether the long tier of every proof is asked for.
func longTier() bool { return os.Getenv("STRAND_LONG") == "1" }

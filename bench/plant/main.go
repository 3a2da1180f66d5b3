// Plant breaks the library on purpose, one line at a time, and shows that its
// tests notice.
//
//	go run ./bench/plant             every bug, against its gate
//	go run ./bench/plant -run lock   those with a name or file that matches
//	go run ./bench/plant -list       what there is
//
// The table of bugs is in bugs.go. The tree is not touched: go builds with an
// overlay. A bug whose original text is not found exactly once in its file is
// refused, so that the table can't grow stale in silence. Each gate must pass
// without the bug before it counts that it fails with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"
)

func main() {
	pattern := flag.String("run", ".", "`regexp` of the bugs to plant, by name or file")
	list := flag.Bool("list", false, "print the table only")
	flag.Parse()
	wanted, err := regexp.Compile(*pattern)
	if err != nil || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "plant: -run:", err, flag.Args())
		os.Exit(2)
	}
	var chosen []bug
	for _, b := range bugs {
		if wanted.MatchString(b.name) || wanted.MatchString(b.file) {
			chosen = append(chosen, b)
		}
	}
	if *list {
		for _, b := range chosen {
			fmt.Printf("%-34s %-24s %s\n", b.name, b.file, b.gate)
		}
		return
	}
	if err := plant(chosen); err != nil {
		fmt.Fprintln(os.Stderr, "plant:", err)
		os.Exit(1)
	}
}

// plant plants the bugs one after the other and prints a line for each.
func plant(chosen []bug) error {
	g, err := newGarden()
	if err != nil {
		return err
	}
	defer g.close()
	found := map[verdict]int{}
	var failed error
	for _, b := range chosen {
		began := time.Now()
		verdict, err := g.try(context.Background(), b)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", b.name, err))
			continue
		}
		found[verdict]++
		fmt.Printf("%-34s %-24s %-12s %5.1f s  %s\n", b.name, b.file, verdict, time.Since(began).Seconds(), b.gate)
	}
	fmt.Printf("%d of %d planted bugs caught, %d skipped\n", found[caught], len(chosen), found[absent])
	if n := found[missed]; n > 0 {
		failed = errors.Join(failed, fmt.Errorf("%d bugs were not noticed", n))
	}
	return failed
}

// Mutate breaks the library on purpose, one line at a time, and shows that its
// tests notice.
//
//	go run ./bench/mutate             every mutation, against its gate
//	go run ./bench/mutate -run lock   those with a name or file that matches
//	go run ./bench/mutate -list       what there is
//
// The table of mutations is in mutations.go. The tree is not touched: go builds with an
// overlay. A mutation whose original text is not found exactly once in its file is
// refused, so that the table can't grow stale in silence. Each gate must pass
// without the mutation before it counts that it fails with it. It runs in the module of its
// package; one that needs what is not here, a server say, is skipped, which is not caught.
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
	pattern := flag.String("run", ".", "`regexp` of the mutations to apply, by name or file")
	list := flag.Bool("list", false, "print the table only")
	flag.Parse()
	wanted, err := regexp.Compile(*pattern)
	if err != nil || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "mutate: -run:", err, flag.Args())
		os.Exit(2)
	}
	var chosen []mutation
	for _, b := range mutations {
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
	if err := mutate(chosen); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// mutate applies the mutations one after the other and prints a line for each.
func mutate(chosen []mutation) error {
	g, err := newWorkspace()
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
	fmt.Printf("%d of %d applied mutations caught, %d skipped\n", found[caught], len(chosen), found[absent])
	if n := found[missed]; n > 0 {
		failed = errors.Join(failed, fmt.Errorf("%d mutations were not noticed", n))
	}
	return failed
}

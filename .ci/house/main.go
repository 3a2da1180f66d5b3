// Command house prints the figures of the house beside their ceilings, and fails where
// one is above its own. What it counts is code that users build: tests, examples and
// bench are left out, and so are the kits that tests alone import, internal/…test.
//
//	go run ./.ci/house [-write]
//
// The ceilings stand in .ci/house/ceilings, a line each. They only go down: -write lowers
// those that are above what is there now, and raises none.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
)

const ceilingsFile = ".ci/house/ceilings"

// figure is one line of the report.
type figure struct {
	name  string
	value int
}

func main() {
	write := flag.Bool("write", false, "lower the ceilings to what is there now")
	flag.Parse()
	if err := run(*write); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

func run(write bool) error {
	figures, err := measure()
	if err != nil {
		return err
	}
	ceilings, err := readCeilings()
	if err != nil {
		return err
	}
	above := 0
	for i, f := range figures {
		ceiling, known := ceilings[f.name]
		note := ""
		switch {
		case !known:
			note, above = "  has no ceiling", above+1
		case f.value > ceiling:
			note, above = "  ABOVE", above+1
		}
		fmt.Printf("%-60s %7d  of %7d%s\n", f.name, f.value, ceiling, note)
		if known {
			figures[i].value = min(f.value, ceiling)
		}
	}
	if write {
		return writeCeilings(figures)
	}
	if above > 0 {
		return fmt.Errorf("%d figures are above their ceilings: who adds something pays for it elsewhere", above)
	}
	return nil
}

func readCeilings() (map[string]int, error) {
	data, err := os.ReadFile(ceilingsFile)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	ceilings := make(map[string]int)
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var value int
		number, name, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if _, err := fmt.Sscan(number, &value); err != nil {
			return nil, fmt.Errorf("%s: %q does not begin with a number: %w", ceilingsFile, lines.Text(), err)
		}
		ceilings[strings.TrimSpace(name)] = value
	}
	return ceilings, nil
}

func writeCeilings(figures []figure) error {
	var b bytes.Buffer
	for _, f := range figures {
		fmt.Fprintf(&b, "%7d %s\n", f.value, f.name)
	}
	return os.WriteFile(ceilingsFile, b.Bytes(), 0o644)
}

package main

import (
	"os"
	"testing"
)

// TestMain lets the test be the shop, too.
func TestMain(m *testing.M) {
	if os.Getenv("TICKETS_DIR") != "" {
		main()
		return
	}
	m.Run()
}

func Example() {
	main()
	// Output:
	// You will see 1,000 tickets sold, a process killed among them, and 1,000 serials without a gap.
	// The shop was killed: true
	// The shop was killed: false
	// Customers: 1000, serials: 1000, last one: true
}

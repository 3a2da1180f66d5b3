package executor_test

import (
	"flag"
	"testing"
)

// Tests that are parallel wait for other processes, most of them, more than they compute, so that more of
// them run at a time than there are processors. What go test is given as -parallel counts.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8")
	m.Run()
}

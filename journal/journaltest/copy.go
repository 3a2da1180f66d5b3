package journaltest

import "testing"

var copyTests = map[string]func(*testing.T, Disk){}

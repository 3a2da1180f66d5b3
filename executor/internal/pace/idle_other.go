//go:build !linux

package pace

import "time"

func processorTimes() (used, machine time.Duration, ok bool) { return 0, 0, false }

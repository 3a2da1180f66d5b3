//go:build !unix

package shard

import "time"

var began = time.Now()

func processorTime() time.Duration { return time.Since(began) }

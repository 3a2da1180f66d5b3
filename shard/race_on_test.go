//go:build race

package shard

// oneIn thins out what one goroutine does alone, which has nothing to race with
// and takes several times as long under the detector: there a test makes one in
// so many. Without the detector it makes all, and so does .ci/run. It is odd.
const oneIn = 9

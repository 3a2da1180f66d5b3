// Package world is one simulator for all of the executor: features and faults meet at
// random, and an oracle that knows the documented sentences, and no code, says whether
// what was promised holds.
//
//	go test ./bench/world                          300 worlds; with STRAND_PUSH=1 2,000
//	go test ./bench/world -timeout 0 -seeds 1000000 -from 1
//	go test ./bench/world -seeds 500 -swarm fold,disk,crash
//	go test ./bench/world -run TestReplay -script FILE
//
// A world is an executor on a disk in memory, inside of a bubble of testing/synctest; see
// executor/executortest. A seed draws a configuration, a swarm of features, and some 30
// to 120 steps. A swarm is a random subset: with all features in each world, each would
// hide what the others do, and pairs and triples meet often enough all the same.
//
// # Scripts
//
// What was drawn is a script, of one line for a queue or a step: a verb and arguments.
// Only the script is played, so that a script which is shortened is a world, too. When a
// world fails, lines and arguments are taken out as long as it fails in the same way, and
// what is left is printed. Scripts that have shown a fault are in testdata, for ever. A line
// that ends with & begins together with the next one, on a goroutine of its own, while jobs
// run; other steps happen while the workers rest, and time passes in steps for that.
//
// What a handler does is in the payload: fail/3s:ok fails at the first call, and takes
// three seconds at the second one.
//
// # The oracle
//
// The ledger has each payload of which a call was made, and what the caller was told:
// acknowledged, refused, or neither. At each moment at which nothing is under way there is
// a census: what Inspect shows. Then
//
//   - each payload that was acknowledged is in one place: it waits or runs, is dead, or has
//     ended in a way of which there is a trace: its handler said so, a person deleted it, an
//     equal one or what it was folded into stands for it, it was kept for too long;
//   - what was refused is in none, and what nobody has enqueued is nowhere;
//   - what has ended, and was so in a census or was told to a caller, never comes back; what
//     is dead comes back if a person asks for it only;
//   - the figures of each queue are those of the census, and in each life the sum of what
//     has ended and what is left grows by what was accepted.
//
// When a handler begins, its payloads are in order, nothing that waits was overtaken, and no
// other run of the id goes on. When nothing is left to do now, no job is ready. In the end
// faults and pauses are taken away, and all jobs end. What else a feature promises is in the
// file of the feature.
//
// # A new feature
//
// Each has one file, feature_*.go, with a value in the list features: what it sets on the
// configuration, its steps, what it promises. TestEveryNameIsClaimed is red as long as an
// exported name of package executor is in no file of a feature, and in no list of what
// is looked at elsewhere.
//
// A fault that was found and is not mended has its script in testdata and its name in
// pending: worlds do without what shows it.
package world

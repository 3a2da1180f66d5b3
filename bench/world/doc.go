// Package world is one simulator for all of the executor: features and faults meet at
// random, and an oracle that knows the documented sentences, and no code, says whether
// what was promised holds.
//
//	go test ./bench/world                          20 worlds; with STRAND_PUSH=1 1,000
//	go test ./bench/world -timeout 0 -seeds 1000000 -from 1
//	go test ./bench/world -seeds 500 -swarm fold,disk,crash
//	go test ./bench/world -run TestWorldOnCluster -seeds 1000 -from 1
//	go test ./bench/world -run TestReplay -script FILE
//	go test ./bench/world -run TestKilled -timeout 0 -seeds 10000 -kills 6
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
// Each total of a life is what events have told, and what the ledger knows of, for queues in which a payload stands
// for itself. A copy of the journal opens, and has what was there before and after it was made.
//
// A run is at the attempt that the one before has left it at, in a later life, too, and pauses as
// long as that has said. What a person picks by a filter is what a look at each id picks, and all
// else stays as it is. Of a call all payloads are accepted or none.
//
// What shows the same thing shows it alike: one queue and one id are looked at in all ways in
// each census. The clock of a bubble goes forward only; the one that due times are on is
// another one, which is set in both directions.
//
// # From one life to the next
//
// A restart is what a deploy is: a process may have other settings than the one before, of a queue,
// of the executor, of its limits and numbers; events may have become states. A queue may be missing,
// be there under another name, or be registered later, while the others run. Calls are made before the
// start, too, and handlers may have no time to end. What was promised holds for what was accepted under
// the other settings, except where that is said to be so: which life has changed them is in the
// configuration of the queue. Left out are the settings of Merge beside MergeSupersede, Fold, Locks and
// lanes, whose traces in the journal would have to be explained by those of another life.
//
// # On a file, and killed
//
// TestKilled plays worlds on a file, in processes that die by SIGKILL: at the steps and
// acts of the script that are a crash, and some more times, at random moments, from
// outside. Each time that the ledger has changed, and before it goes on, a process
// writes all that the world knows to a pipe; the next process has it from there, opens
// the journal, and goes on with the step after the one in which the other died. What was
// under way then is answered with ErrUnknown, as to a caller that was not told: it may be
// in the census of the reopened journal or not, and stays so. The oracle is the same, and
// journal.Check finds nothing behind any process. It reads a directory, so it is not asked about
// a disk in memory: what is on that, the next life shows.
//
// Each world has a log before the file that is of the usual size, or so small that it is full
// all the time, or none, or another one in each life.
//
// Each process has a bubble, whose clock goes on where that of the one before stood, so
// worlds of hours take milliseconds and rates and due times are exact here, too. Left out
// are the features disk and clock: a file has no faults on demand; bench/soak has those of the kernel.
// Jobs that end the process are in these worlds alone: a disk in memory has no crash recorder.
// A crash after so many commits is one after so many changes of the ledger. A kill takes
// nothing of what was written and not synced: bench/soak's image has the power cut. A
// script that fails is printed and not shortened, because the moment of a kill does not
// come again; its directory stays.
//
// Journal/postgres plays the worlds on the log of a partition, in TestWorlds: what a node
// has of an executor, with the store, its fence and a server beneath it. People act there by the
// Inspector of the partition, or by that of another node, outside of the bubble, whose clock
// stands until the owner has answered. The partition is the only one, and
// does not move meanwhile; what a process wanted that was killed is taken out of the inbox. What else is
// between a caller and the log there, inbox, leases and nodes, has tests of its own: it waits for
// notifications of the server, and the clock of a bubble stands while something waits for the network.
//
// # On a cluster
//
// TestWorldOnCluster plays worlds on several nodes of package executor/cluster, in one bubble: a
// front each, and partitions with a log and an inbox that outlive their owners. Each step calls
// some node. Partitions are handed over, or fenced while their owner works; nodes die, leave and
// join; calls from node to node are lost before or after they have arrived, and so are the
// answers to what nodes ask for of a limit; handlers wait for jobs of other partitions. Workers
// never rest here, so what people do is counted only while all is paused. The life of a world is
// that of all nodes, and a term is that of a partition with its owner.
//
// What runs at a time is of a node, and a limit of one or of all; a key, a source and how many dead
// letters are kept are of a partition. Left out are the features that are apart, which are of one executor,
// and the disk. The inbox is like that of journal/postgres in what it promises, and not in how.
//
// # In memory
//
// TestWorldInMemory plays worlds without a journal, where a payload that comes alone is
// delivered without a commit. Left out is what ends a life, and the disk.
//
// # A new feature
//
// Each has one file, feature_*.go, with a value in the list features: what it sets on the
// configuration, its steps, what it promises. TestEveryNameIsClaimed is red as long as an
// exported name of package executor is in no file of a feature, and in no list of what
// is looked at elsewhere. What a feature keeps in the state of a world has one of the types
// of the list kept, or is made anew in each process.
//
// A fault that was found and is not mended has its script in testdata and its name in
// pending: worlds do without what shows it.
package world

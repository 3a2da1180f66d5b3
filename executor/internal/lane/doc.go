// Package lane keeps the order of ids that several queues share: of the payloads of
// one id those of one queue come first, until the earliest that was accepted is
// another queue's.
//
//	id 42:  #3 created  #7 paid  #9 paid  #12 canceled
//	        └ may run   └──────── stand in line ─────┘
//
// A payload is in its lane from the instant in which it gets its position to the one
// in which its end is on record. While a job of a lane runs, no other does. Inside a
// queue its own order holds: so the queue of the earliest payload may run whichever
// of its own comes first, and no two queues ever wait for each other. A payload that
// comes back from the morgue has its old place before its queue has it: meanwhile no
// other of its queue may use its turn.
//
// It is plain data with a mutex. Wakers are called under none.
package lane

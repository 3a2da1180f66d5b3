// Package control is how the strand command talks to an executor that runs: a unix
// socket in the journal's directory, and over it HTTP with JSON.
//
//	POST /v1/VERB   a request, one JSON object of at most a MiB
//	200             the answer, one JSON object; of events one a line, until the reader goes
//	4xx, 5xx        a failure
//
// The wire types are all in wire.go. A field that the server does not know is an error:
// an older process must not take a deletion with a filter for one without. Answers may
// get fields. Ids, names of queues and payloads are any bytes, in base64.
//
// # The socket
//
// Only the owner of the journal's lock listens, so what is there under the socket's name
// and does not answer is left over from a process that died. It is made in a directory of
// mode 0700, is given mode 0600 there, and only then its name: nobody else can connect at
// any moment. What is there and is no socket, or answers, is left alone, and so is a
// directory that every user may write to. The peer's credentials are not asked for: the
// mode has the system do so.
//
// # Bounds
//
// A call may take callTime, of which its answer may take writeTime on its way to a
// slow reader. maxCalls are worked on at a time, and maxStreams streams are open;
// one more is told so at once, and a client tries again for a few seconds. A connection that says nothing, or half of
// something, is closed after five seconds, and before that when maxConnections others
// have come. A handler that panics is an error of its call. Close waits for nobody.
package control

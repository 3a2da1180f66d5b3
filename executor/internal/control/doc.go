// Package control is how the strand command talks to an executor that runs: a unix
// socket in the journal's directory, and over it HTTP with JSON.
//
//	POST /v1/VERB   a request, one JSON object of at most a MiB
//	200             the answer, one JSON object; of events one a line, until the reader goes
//	4xx, 5xx        a failure
//
// The JSON is that of package admin, and so is what is refused of a request. What looks is
// asked for and answered in the types of the Inspector; those of what acts are in wire.go.
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
// A call may take callTime. Looking has room for maxLooks bytes of answers, being made or
// on their way; acting has maxActs places, what takes minutes maxChores, streams maxStreams.
// None of them keeps out another, and for VerbHello there is always room. Who comes when
// there is none waits in line for serving.InLine, and then is told so. A reader that takes
// nothing for serving.Stall is cut off. A connection that says nothing, or half of
// something, is closed after five seconds, and one for which nothing is done before that
// when maxConnections others have come. A handler that panics is an error of its call.
// Close waits for nobody.
package control

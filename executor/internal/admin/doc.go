// Package admin is what all who look into an executor, or act on it, have in common: the
// dashboard's API, the control socket and the strand command. There is one JSON, one strict
// reader of requests, and one way to say what an action is about.
//
// # The JSON
//
// The types are those of [inspect.Inspector]: a field is called as in Go, in small letters
// with underscores, unless its tag says otherwise, as in `wire:"lag"`.
//
//   - A text may be any bytes: it is a string where it is UTF-8, and {"base64": "…"} where it
//     is not. So nothing is lost, and nothing stands for something else.
//   - A duration is a number of seconds, and its name ends in _seconds.
//   - A time is RFC 3339 in UTC. It is left out when there is none.
//   - A list is [] when it is empty. Nothing is null.
//   - A number that JSON does not have, as NaN, is a string.
//   - A job that has or waits for something has its name, as people see it, and is taken
//     apart in job: {"name": "orders/17", "job": {"queue": "orders", "id": "17"}}. A person
//     has a name alone.
//
// Options of a tag: omit leaves out what is zero, must has a request say it, owner is for the
// name of a job, each=NAME makes an object with that field of each text of a list, and inline
// puts the fields of a struct beside those around it. A tag of "-" hides a field. What a struct
// embeds is inline; where names meet, the outer one holds.
//
// # Requests
//
// [Decode] refuses a field that there is not, that is there twice, that is null, or that must
// be there and is not, at any depth: an older process must not take a deletion with a filter
// for one without, and what nobody has said must not do anything. [Read] is for answers, which
// may get fields.
package admin

// Package dashboard shows an executor in a browser, and steers it: one
// [http.Handler] with pages for people, in the program that runs the jobs.
//
//	mux.Handle("/strand/", dashboard.Handler(x, dashboard.Config{}))
//
// Everything is in the binary: no CDN, no build step, no file beside it. All pages
// and what they load are less than 200 KB on the wire, most of which a browser loads
// once.
//
// # What is promised
//
//   - Read-only, unless Config.Authorize says otherwise. Without it nothing can be
//     changed: a request that would is refused with 403, and no page offers one.
//   - Payloads are hidden, with the metadata of jobs, unless Config.ShowPayload
//     returns a text for them, or in lists Config.ShowPreview one for their begin.
//     Errors of jobs are shown: QueueConfig.DeadLetters.FormatError decides what is in them.
//   - What changes something is a POST from a page of the same origin ([http.CrossOriginProtection]). What a browser
//     sends for a page of another origin, of the same site or not, is refused whatever it is: an image or a frame as
//     well. Links can be followed, and Config.TrustedOrigins may ask. Over plain HTTP, except to localhost, browsers do
//     not say where a GET comes from, so every GET is answered.
//   - Ids, payloads, keys, errors and names of queues may be any bytes: they are
//     shown as text. There is no inline script or style, and the content security
//     policy allows none.
//   - Who looks does not hold up who works. What is shown comes from
//     [inspect.Inspector], whose lists are in pages, and made beside the work. A page
//     is made in memory, within Config.PageTimeout, before its first byte is sent.
//   - Answers of one handler have 64 MiB of memory, however many clients ask: 8 are made
//     at a time, and what is made counts until it is sent. One for which there is no room
//     waits for 8 seconds, and gets 503 then. A client that takes nothing of its answer for
//     5 seconds, or not all of it in 30, is cut off.
//   - Who acts does not wait for who looks: there is room for 16 actions at a time.
//   - Live figures are taken at most once a second, for all browsers, and only while a page
//     is seen that shows them. It asks each second, and no connection waits for them.
//   - A client that hangs up is no error, and no line in the log.
//   - A panic while a page is made is that request's, with 500 and a line in the log.
//
// # Who may see what
//
// Who may see the pages is for the program to say, with a middleware around the
// handler or with [View] in Config.Authorize. Without either, whoever reaches the
// address sees ids, keys and errors.
//
// The authorizer is asked for View once for each request, before anything is looked up,
// and of an action when it has been read, before its verb. Action.Queue is the queue that
// the request is about: name= of /queue and /hot, queue= of /job, /find and the API, and
// that of an action on jobs. It is "" for all else: what is about all queues, keys,
// schedules, the journal, /live, /assets/. Where a request is about all queues, the
// authorizer is asked for View of each of them, too, and those it refuses are left out:
// of the overview, /find, /running and the live figures, of stats, queues, find and
// running of the API, with their part of the totals. One that does not answer in time
// leaves no list: the answer is 503. What is said of the executor as a whole is of all:
// workers, the journal, and who has locks, leases, slots and limits, by queue and id, there
// and where an explanation names who is in the way.
//
// # Where it is mounted
//
// Under any path of an [http.ServeMux] that ends in a slash; the pattern says where
// the pages begin, and may have wildcards: "/tenants/{name}/". With [http.StripPrefix],
// it works as well. Another router may not leave its pattern in the request:
// Config.Prefix says then what to take off, which has no wildcards. All links are
// relative, so a proxy in front may add or remove what it likes.
//
// API.md, beside this file, has all routes, the actions with their parameters, and the JSON.
//
// # What counts as what
//
// Processed, in figures and charts, are payloads that are done or discarded; failed are
// runs whose error spends a retry, or would have; a run that is canceled, by its handler
// or a person, is neither, and what it gives up is in dead; nor is one that is snoozed,
// throttled or interrupted.
//
// # How it works
//
//	browser ──► Host, origin ──► Authorize ──► page ──► Inspector, Stats, Explain
//	   ▲                                        │
//	   └────── bytes, with a deadline ◄─────────┘ (template, in memory)
//
// What moves on a page that stays open it asks /live for: Stats, once a second for all browsers.
//
// # Census
//
// None: a page is the goroutine of its request.
package dashboard

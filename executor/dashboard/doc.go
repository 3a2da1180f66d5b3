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
//     returns a text for them. Errors of jobs are shown: QueueConfig.FormatError
//     decides what is in them.
//   - What changes something is a POST from a page of the same origin
//     ([http.CrossOriginProtection]).
//   - Ids, payloads, keys, errors and names of queues may be any bytes: they are
//     shown as text. There is no inline script or style, and the content security
//     policy allows none.
//   - Who looks does not hold up who works. What is shown comes from
//     [executor.Inspector], whose lists are in pages, and made beside the work. A page
//     is made in memory, within Config.PageTimeout, before its first byte is sent; a
//     client that does not read is cut off after a while. There are at most
//     Config.MaxStreams live connections; one that is slow is closed, and all of them
//     when the executor or the [http.Server] stops.
//   - A panic while a page is made is that request's, with 500 and a line in the log.
//
// Who may see the pages is for the program to say, with a middleware around the
// handler or with [View] in Config.Authorize. Without either, whoever reaches the
// address sees ids, keys and errors.
//
// # Where it is mounted
//
// Under any path of an [http.ServeMux] that ends in a slash; the pattern says where
// the pages begin, and may have wildcards: "/tenants/{name}/". With [http.StripPrefix],
// it works as well. Another router may not leave its pattern in the request:
// Config.Prefix says then what to take off, which has no wildcards. All links are
// relative, so a proxy in front may add or remove what it likes.
//
// # Routes
//
//	GET  /            overview: totals, live charts, queues
//	GET  /queue       a queue: ?name=, tab=, sort=, desc=, prefix=, error=, limit=, after=
//	GET  /hot         the ids of a queue that have the most payloads: ?name=
//	GET  /job         a job: ?queue=, id=
//	GET  /find        looks for a job by its id in all queues, or one: ?id=, queue=
//	GET  /running     what workers have in hand: ?stacks=1 with their stacks
//	GET  /locks       locked keys, leases, slots, limits
//	GET  /schedules   schedules of Config.Crons, leaders of Config.Elections
//	GET  /journal     the journal, its health
//	POST /do          an action, see Actions; answers with a question, or 303
//	POST /copy        a copy of the journal, made while it runs
//	GET  /live        server-sent events: the figures, each second
//	GET  /assets/     what the pages load
//
// Names and ids are in the query, percent-encoded, because a path can't carry all of
// them: a mux cleans "..", "//" and the like.
//
// # Actions
//
// An action is a POST to /do. What it is about is in the query or the form: verb=, one
// of [Verb]; queue=, a name; and scope=, which is one of
//
//	id          the job, or the dead payloads, of id=
//	selected    each sel=: a position, ":" and an id, percent-encoded as in a query
//	            (and so twice on the way); without the position the job as a whole, ":order-7"
//	filtered    what prefix= and error= pick, of tab=
//	all         all of tab=
//
// tab= is a list: waiting, retrying, running, parked, halted, or morgue, which is the
// one of [Requeue] and [DeleteDead], and of no other verb. [Pause] and [Resume] take
// no filtered, and their all is the queue, or without queue= the executor. [Unlock]
// takes key= alone; [Trigger], [PauseSchedule] and [ResumeSchedule] take key=, the name
// of the schedule, and cron=, its index in Config.Crons, by default 0: without queue=
// and scope=. What does not say which jobs it is about is refused with 400.
//
// What can't be taken back, or is about more than what a person has picked one by
// one, asks first, with a page that says how many there are: the answer has
// confirm=yes. Afterwards the page says how many were affected. Each is a line in the
// log, with verb, queue, how many, and from where.
//
// # How it works
//
//	browser ──► Host, origin ──► Authorize ──► page ──► Inspector, Stats, Explain
//	   ▲                                        │
//	   └────── bytes, with a deadline ◄─────────┘ (template, in memory)
//
//	browser ◄── /live ◄── last figures ◄── sampler ──► Stats, once a second for all browsers
//
// # Census
//
//   - live figures: 1, from the first browser that watches until the last one has
//     gone; each browser is the goroutine of its request
//   - otherwise none: a page is the goroutine of its request
package dashboard

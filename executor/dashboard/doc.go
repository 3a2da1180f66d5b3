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
//   - What changes something is a POST from a page of the same origin
//     ([http.CrossOriginProtection]). What a browser sends for a page of another origin,
//     of the same site or not, is refused whatever it is: an image or a frame as well.
//     Links can be followed, and Config.TrustedOrigins may ask. Over plain HTTP, browsers
//     do not say what a GET is for, unless the host is localhost: it is answered then.
//   - Ids, payloads, keys, errors and names of queues may be any bytes: they are
//     shown as text. There is no inline script or style, and the content security
//     policy allows none.
//   - Who looks does not hold up who works. What is shown comes from
//     [executor.Inspector], whose lists are in pages, and made beside the work. A page
//     is made in memory, within Config.PageTimeout, before its first byte is sent.
//   - Answers of one handler have 64 MiB of memory, however many clients ask: 8 are made
//     at a time, and what is made counts until it is sent. One for which there is no room
//     waits for 8 seconds, and gets 503 then. A client that takes nothing of its answer for
//     5 seconds, or not all of it in 30, is cut off.
//   - Who acts does not wait for who looks: there is room for 16 actions at a time.
//   - There are at most Config.MaxStreams live connections. One more takes the place of the
//     one that has watched longest, if for 10 seconds or more: a browser comes back. One
//     that is slow is closed, and all of them when the executor or the [http.Server] stops.
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
// leaves no list: the answer is 503, and live figures end. Of these the authorizer is asked
// again every 5 seconds, about the request that they began with, and they end when View is
// refused. What is said of the executor as a whole is of all: workers, the journal, and who
// has locks, leases, slots and limits, by queue and id, there and where an explanation
// names who is in the way.
//
// # Where it is mounted
//
// Under any path of an [http.ServeMux] that ends in a slash; the pattern says where
// the pages begin, and may have wildcards: "/tenants/{name}/". With [http.StripPrefix],
// it works as well. Another router may not leave its pattern in the request:
// Config.Prefix says then what to take off, which has no wildcards. All links are
// relative, so a proxy in front may add or remove what it likes.
//
// A middleware that wraps the [http.ResponseWriter] gives its own a Flush, or an Unwrap
// as [http.ResponseController] has it. Behind one that does not, [http.TimeoutHandler]
// for example, figures move every few seconds instead of each second, and the log says
// so once.
//
// # Routes
//
//	GET  /            overview: totals, live charts, queues
//	GET  /queue       a queue: ?name=, tab=, sort=, desc=, prefix=, error=, limit=, after=,
//	                  whole=1
//	GET  /hot         the ids of a queue that have the most payloads: ?name=
//	GET  /job         a job: ?queue=, id=
//	GET  /find        looks for a job by its id in all queues, or one: ?id=, queue=
//	GET  /running     what workers have in hand: ?stacks=1 with their stacks
//	GET  /locks       locked keys, leases, slots, limits
//	GET  /schedules   schedules of Config.Crons, leaders of Config.Elections
//	GET  /journal     the journal, its health
//	POST /do          an action, see Actions; answers with a question, or 303
//	POST /copy        a copy of the journal, made while it runs
//	GET  /live        server-sent events: the figures, each second; rates behind a gap
//	                  are left out
//	GET  /assets/     what the pages load
//	     /api/v1/     for programs, see The API
//
// Names and ids are in the query, percent-encoded, because a path can't carry all of
// them: a mux cleans "..", "//" and the like.
//
// # What counts as what
//
// Processed, in figures and charts, are payloads that are done or discarded; failed are
// runs whose error spends a retry, or would have; a run that is cancelled, by its handler
// or a person, is neither, and what it gives up is in dead; nor is one that is snoozed,
// throttled or interrupted.
//
// # Long lists
//
// A page has its list within 150 ms, as far as it is the work of others that makes it
// late. With an order or a filter each job has to be looked at for it, which takes what
// is said of [executor.Inspector.Jobs], and longer beside handlers that compute. Where
// that is too much, the page has the first of those that were looked at until then, says
// how many these are, of how many, and has a link to the same list with whole=1, which
// takes as long as Config.PageTimeout lets it, and is refused with 503 behind that. The
// hot ids are looked for once in five seconds, for all who ask, and say when that was; an
// action of this dashboard has them looked for anew.
//
// # Actions
//
// An action is a POST to /do. What it is about is in the query or the form: verb=, one
// of [Verb]; queue=, a name; and scope=, which is one of
//
//	id          the job, or the dead payloads, of id=
//	selected    each sel=: a position, ":" and an id, percent-encoded as in a query
//	            (and so twice on the way); without the position the job as a whole, ":order-7"
//	filtered    what prefix= and error= pick, one of which is there, of tab=
//	all         all of tab=; with prefix= or error= it is refused
//
// tab= is a list: waiting, fresh, retrying, running, parked, halted, or morgue, which is the
// one of [Requeue] and [DeleteDead], and of no other verb. [Pause] and [Resume] take
// filtered with prefix= alone, which means all ids that begin so; their all is the queue,
// and scope=executor is the executor. [Unlock] takes key= alone; [Trigger],
// [PauseSchedule] and [ResumeSchedule] take key=, the name of the schedule, and cron=, its
// index in Config.Crons, which may be left out if there is one only: without queue= and
// scope=. What does not say which jobs it is about, or says more than its verb and scope
// have a use for, is refused with
// 400; so is what is empty, but for the reason= of a [Cancel], and what is there twice,
// be it once in the query and once in the form. Only sel= may come more often, and 1000
// times at most. A position is a number from 1.
//
// What can't be taken back, or is about more than what a person has picked one by
// one, asks first, with a page that says how many there are: the answer has
// confirm=yes. Afterwards the page says, once, how many were affected: done= in its
// address is the name of that text.
//
// Each action is a line in the log, at the level of information: with all that it was
// asked with, affected, from, the address, and user, which is what Config.User says. One
// that failed, and one that the authorizer has refused, is a warning with its error. The
// filter's error= is there as containing, because error is what went wrong.
//
// # The API
//
// What the pages show and do, as JSON, behind the same guards: Config.Authorize is asked
// the same questions, payloads are hidden by the same hook, Config.Hosts holds, and what
// a browser sends for a page of another origin is refused. A client that is no browser
// sends neither Sec-Fetch-Site nor Origin, and is let in as far as the authorizer does:
//
//	curl -H "Authorization: Bearer $TOKEN" https://example.com/strand/api/v1/stats
//	curl -H "Authorization: Bearer $TOKEN" --json \
//	  '{"verb": "requeue", "queue": "orders", "scope": "filtered", "error": "timeout"}' \
//	  https://example.com/strand/api/v1/actions
//	{"affected":1204,"of":"payload"}
//
//	GET  /api/v1/           these, with the parameters of each
//	GET  /api/v1/stats      total and by_worker, which has the queues by their names;
//	                        workers, stuck, trouble: what keeps the executor from its work
//	GET  /api/v1/queues     queues, each with its shards and backlog; ?queue= for one
//	GET  /api/v1/jobs       jobs of ?queue=, with state=, order=, desc=, prefix=, error=,
//	                        limit=, cursor=, patience=
//	GET  /api/v1/dead       dead payloads of ?queue=, with the same but state=
//	GET  /api/v1/job        all about ?queue=, id=: failures, in_hand, waiting, dead, keys,
//	                        leases, slots, explanation
//	GET  /api/v1/details    the same of up to 25 ids of ?queue=: id= may be there several times
//	GET  /api/v1/explain    why ?queue=, id= does not run: text is all of it in one line
//	GET  /api/v1/find       the explanations of ?id= in all queues, or that of queue=; late
//	                        says that the time was up before all of them were asked
//	GET  /api/v1/running    what workers have in hand: ?queue=, stacks=, limit=
//	GET  /api/v1/locks      locked keys: ?limit=, cursor=
//	GET  /api/v1/leases     keys of Unique: ?limit=, cursor=
//	GET  /api/v1/slots      slots that are out: ?limit=
//	GET  /api/v1/limits     limits, each with the keys for which most jobs wait
//	GET  /api/v1/schedules  crons with their schedules, and leaders
//	GET  /api/v1/journal    the journal, and the backlog of all queues
//	POST /api/v1/actions    an action: {"affected": 3, "of": "payload"}; a requeue says superseded, late and unsure, too, as executor.Requeued
//	POST /api/v1/copy       a copy of the journal, as a tar
//
// Fields are those of package executor in small letters, and figures have Lowkiq's
// names: length is [executor.QueueStats].Jobs, retries Retrying, morgue_length Dead,
// processed Done and Discarded, and lag is in seconds. Other durations are in seconds,
// too, as numbers, by names that end in _seconds. Times are RFC 3339 in UTC, and left
// out when there is none. A list that is empty is []. More fields may come.
//
// Some of these figures mean other things than Lowkiq's of that name:
//
//	                         here                            in Lowkiq
//	──────────────────────────────────────────────────────────────────────────────────
//	length, fresh, retries   jobs that wait or run           jobs that wait
//	morgue_length            payloads                        ids
//	lag                      of jobs that could run: not of  of all that wait
//	                         those that are parked or halted
//	busy                     workers with something in hand  jobs in hand
//	processed                payloads, since this process    jobs, of all processes
//	                         began
//	failed                   runs, since this process began; jobs whose batch failed, of
//	                         of a batch one for each job     all processes
//	by_worker                queues by their names           classes of workers
//
// The parameters:
//
//   - state= may be there several times: ready, scheduled, retrying, parked, halted,
//     running, and fresh, which is any of them that has not failed. None of it means all.
//   - state of a list says what its tab does; that of an explanation is more exact where it
//     is parked: blocked, waiting, limited, suspected or paused. An id that has dead
//     payloads only is dead, with their number in dead; beside a job they are in job.
//   - order= is id, due, attempts or payloads of jobs, id or died of what is dead; with
//     desc=true the other way round. Without it a list is as it comes.
//   - limit= is from 1 to [executor.MaxListLimit], and 50 without it. Where an answer
//     has next, that is cursor= of the next page, with the rest of the query as it was.
//   - prefix= is how the id begins, error= a part of the error: see
//     [executor.JobFilter].
//   - patience= is in seconds, see [executor.JobQuery]: the answer has what was found
//     until then, and partial if that is not all that comes first. Without it the answer
//     takes as long as Config.PageTimeout lets it.
//
// Names of queues, ids, keys, errors and payloads may be any bytes, and JSON has text only. One
// that is no UTF-8 is {"base64": "…"} in its place, in answers and in the JSON of an action. In an
// address or a form the bytes are percent-encoded, whatever they are. In by_worker, such a queue
// is left out. Jobs that have or wait for something have the name that people see, and are taken
// apart in job.
//
// A payload of job has its text in payload, 64 KiB of it, and all payloads of an answer a
// MiB. What there is more of has clipped set. Without either, it is hidden.
//
// An action is JSON, or a form. It has verb, one of [Verb], and:
//
//	run, retry, cancel, delete,  queue; scope is id, selected, filtered or all; state, of
//	kill-failed, delete-failed   filtered and all, for jobs in some states; cancel: reason
//	requeue, delete-dead         queue; scope as above, about what is in the morgue
//	pause, resume                scope is executor, or with queue: all of it, id, selected,
//	                             or filtered with prefix: all ids that begin so
//	unlock                       key
//	trigger, pause-schedule,     schedule, and cron: its Cron in Config.Crons, which may
//	resume-schedule              be left out if there is one only
//
//	id          the job, or the dead payloads, of id
//	selected    selected: a list of objects with id, and position, a number from 1, if it
//	            is about one payload (cancel, delete, requeue, delete-dead); 1000 at
//	            most. In a form each is a sel, as of the pages
//	filtered    what prefix and error pick, one of which is there
//	all         all
//
// Texts are texts, state is a list of them, ["retrying", "halted"], in a form one for
// each, and cron a number. It is done without a question: what is in the way of a slip is
// that a parameter, a field or a combination which has no meaning is refused, a field
// that is there twice, one in other letters, and one that is null, "" or []. A body has
// 1 MiB at most.
//
// What is refused, or fails, is a problem of RFC 9457, application/problem+json, with
// type, title, status and detail, and affected: how many were, by an action that went
// wrong behind them, an ActionTimeout that was over for example. That many are done, and
// stay so; what the executor was at just then, a hundred or two jobs, may be, too. What
// was so before, paused for example, is not affected. Statuses are 400 for what makes no
// sense, 403 for what may not be, 404 for what there is not, 405, 408, 409 for what is in
// the way, 413, 415, 503 when the executor has stopped, has no room or no time, or the
// authorizer has none, with Retry-After, and 500, which is in the log.
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

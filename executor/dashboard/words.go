package dashboard

// word is what a figure is called on pages, and what that means.
type word struct{ Name, Meaning string }

// words of figures and columns.
var words = []word{
	{"Lag", "How long the oldest job that could run has been due"},
	{"Age", "How long ago the oldest payload was accepted that is not over, whatever it waits for"},
	{"Busy", "Workers that have something in hand, of all"},
	{"Enqueued", "Ids with something to do: they wait, run, or come again"},
	{"Payloads", "What these ids have to do: payloads that wait, run, or failed and wait"},
	{"Running", "Jobs in the hands of workers"},
	{"Fresh", "Enqueued jobs that have not failed"},
	{"Retries", "Jobs that failed, and wait for their next attempt"},
	{"Parked", "Jobs that wait for a lock, a slot, a limit or their turn"},
	{"Halted", "Jobs whose retries are used up: they go on when a person runs them"},
	{"Dead", "Payloads that were given up: the morgue has them"},
	{"Processed", "Payloads that are done or discarded, since this process began"},
	{"Failed", "Runs that failed, since this process began"},
}

// meaningOf says what a word means; "": it is plain.
func meaningOf(name string) string {
	for _, w := range words {
		if w.Name == name {
			return w.Meaning
		}
	}
	return ""
}

package main

func Example() {
	main()
	// Output:
	// You will see 20 syncs of one account run one at a time, and 50 mails sent beside them by the other worker.
	// Syncs that ran beside another: 0
	// Mails that did not wait for the last sync: 50
}

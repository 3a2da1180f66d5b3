package main

func Example() {
	main()
	// Output:
	// You will see order per id, merging, a retry, and a restart that resumes.
	//   enqueued order-1 placed, merged into an equal one: false
	//   enqueued order-1 paid, merged into an equal one: false
	//   enqueued order-1 paid, merged into an equal one: true
	//   enqueued order-1 shipped, merged into an equal one: false
	//   run order-1 placed, error: <nil>
	//   run order-1 paid, error: <nil>
	//   run order-1 shipped, error: <nil>
	//   run order-2 placed, error: out of stock, try again
	//   run order-2 placed, error: <nil>
	//   run order-2 paid, error: <nil>
	// Stopped before order-3 was due. Started again, nothing enqueued:
	//   run order-3 placed, error: <nil>
}

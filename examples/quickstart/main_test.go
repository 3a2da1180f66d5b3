package main

func Example() {
	main()
	// Output:
	// You will see order per id, a retry that nothing overtakes, and a restart that resumes.
	//   run order-1 placed, attempt 1, error: <nil>
	//   run order-1 paid, attempt 1, error: <nil>
	//   run order-1 shipped, attempt 1, error: <nil>
	//   run order-2 placed, attempt 1, error: out of stock, try again
	//   run order-2 placed, attempt 2, error: <nil>
	//   run order-2 paid, attempt 1, error: <nil>
	// Stopped before order-3 was due. Started again, nothing enqueued:
	//   run order-3 placed, attempt 1, error: <nil>
}

package main

func Example() {
	main()
	// Output:
	// You will see the items of order 7 shipped, at the second attempt, before the rest of it is cancelled.
	// "order 7" locked by shipped/webhook 1
	//   order 7 shipped: the database is away, once more
	//   order 7 shipped
	//   order 7 cancelled, as far as it did not ship
	// Keys that are still locked: 0
}

package main

func Example() {
	main()
	// Output:
	// You will see ann fire ticks, die, and bob go on with the next one; no tick fires twice.
	//   a tick ran on the executor of ann
	//   a tick ran on the executor of ann
	// ann's executor is gone.
	//   a tick ran on the executor of bob
	//   a tick ran on the executor of bob
	// Ticks that fired twice: 0, that no member fired: 0
}

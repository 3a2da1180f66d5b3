// Package browsertest drives the dashboard in a real browser, as a person does: it
// reads what is on the screen and clicks on what is there. It is a module of its own,
// because of the library that speaks with the browser.
//
//	go test .
//
// It needs chromium, and is skipped, with a message, where there is none.
package browsertest

//go:build !cgo

package peer

// noSQLite: the driver is C, and this program was built without a C compiler.
func noSQLite() string { return "gcc libc6-dev" }

//go:build cgo

package peer

func noSQLite() string { return "" }

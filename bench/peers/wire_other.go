//go:build !linux

package main

func wire() (w carried) { return w }

//go:build !linux

package main

// punctual has what sleeps wake up in time. Where there is no epoll, it does.
func punctual() (stop func()) { return func() {} }

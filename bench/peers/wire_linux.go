package main

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// wire is what the open TCP connections of this process have carried, as the system counts it:
// nothing has to stand in their way.
func wire() (w carried) {
	open, _ := os.ReadDir("/proc/self/fd") // nothing where it can't be told
	for _, entry := range open {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			continue // no such socket
		}
		w.Sent += int64(info.Bytes_sent)
		w.Received += int64(info.Bytes_received)
		w.Packets += int64(info.Data_segs_out)
	}
	return w
}

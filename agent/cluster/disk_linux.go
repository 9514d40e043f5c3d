package cluster

import (
	"fmt"

	"golang.org/x/sys/unix"

	"grapevine/kv"
)

// lowWater is how much of a disk of this many bytes stays free: a voter that runs
// into the end of its disk can write neither what was agreed on, nor its vote.
func lowWater(size uint64) uint64 {
	const least = 64 << 20
	return min(max(least, size/50), size/4)
}

// roomOnDisk refuses writes while the disk of raft's log is nearly full.
func (m *member) roomOnDisk() error {
	dir := m.n.o.Dir
	if dir == "" {
		return nil
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return nil // to write will tell
	}
	unit := uint64(disk.Bsize)
	free, water := disk.Bavail*unit, lowWater(disk.Blocks*unit)
	if free >= water {
		return nil
	}
	return fmt.Errorf("%w: %q has %d KiB free, and below %d KiB nothing more is written", kv.ErrDiskFull, dir, free>>10, water>>10)
}

package rest

import (
	"errors"
	"fmt"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/store"
)

// Compact makes the file of the journal in dir as small as what is in it.
func Compact(dir string) (before, after int64, err error) {
	release, err := lockAtRest(dir)
	if err != nil {
		return 0, 0, err
	}
	before, after, err = compactAtRest(dir)
	return before, after, errors.Join(err, release())
}

func compactAtRest(dir string) (before, after int64, err error) {
	p, err := directory.Open(dir)
	if err != nil {
		return 0, 0, fmt.Errorf("journal: compact: %w", err)
	}
	defer p.Close()
	names, err := p.Syncer()
	if err != nil {
		return 0, 0, fmt.Errorf("journal: compact: %w", err)
	}
	defer names.Close()
	v := &View{dir: dir}
	err = v.open(0)
	before = v.size
	if err == nil {
		err = v.store.(*store.Bolt).Rewrite(p, nil)
	}
	// Closed first: Windows does not rename over an open file.
	if err = errors.Join(err, v.Close()); err == nil {
		err = p.Rename(directory.NewName, directory.FileName)
	}
	if err != nil {
		return before, before, errors.Join(err, p.DropFile(directory.NewName))
	}
	info, err := p.Lstat(directory.FileName)
	if err != nil {
		return before, 0, err
	}
	return before, info.Size(), directory.SyncNames(names)
}

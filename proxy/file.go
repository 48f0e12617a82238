package proxy

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// fileQueue is how many records may wait for the disk before they are dropped.
const fileQueue = 4096

// recordFile appends records to a file from one goroutine. put never blocks.
type recordFile struct {
	path    string
	maxSize int64
	keep    int
	log     zerolog.Logger
	dropped func()

	queue chan kept
	done  sync.WaitGroup

	f    *os.File
	w    *bufio.Writer
	size int64
	buf  []byte
	// broken is set after a write failed; records are dropped, and counted,
	// until the file can be opened again.
	broken bool
	retry  time.Time
}

// openRecordFile opens the file for appending and starts its writer. The file
// is only readable by its owner: records name models and request ids.
func openRecordFile(path string, maxSize int64, keep int, log zerolog.Logger, dropped func()) (*recordFile, error) {
	r := &recordFile{path: path, maxSize: maxSize, keep: keep, log: log, dropped: dropped,
		queue: make(chan kept, fileQueue)}
	if err := r.open(); err != nil {
		return nil, err
	}
	r.done.Go(r.run)
	return r, nil
}

func (r *recordFile) put(k kept) {
	select {
	case r.queue <- k:
	default:
		r.dropped()
	}
}

// close writes what waits and closes the file. No put may follow.
func (r *recordFile) close() {
	close(r.queue)
	r.done.Wait()
}

func (r *recordFile) open() error {
	f, err := os.OpenFile(r.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("record file: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("record file: %w", err)
	}
	r.f, r.size = f, st.Size()
	r.w = bufio.NewWriterSize(f, 64<<10)
	return nil
}

func (r *recordFile) run() {
	for k := range r.queue {
		r.write(k)
		// Nothing waits: let the line be seen.
		if len(r.queue) == 0 && !r.broken {
			r.check(r.w.Flush())
		}
	}
	if r.f != nil {
		if err := r.w.Flush(); err != nil {
			r.log.Error().Err(err).Msg("record file: last lines lost")
		}
		if err := r.f.Close(); err != nil {
			r.log.Error().Err(err).Msg("record file: close")
		}
	}
}

func (r *recordFile) write(k kept) {
	if r.broken && (time.Now().Before(r.retry) || !r.check(r.open())) {
		r.dropped()
		return
	}
	r.buf = append(k.record().Append(r.buf[:0]), '\n')
	if r.size > 0 && r.size+int64(len(r.buf)) > r.maxSize && !r.check(r.rotate()) {
		r.dropped()
		return
	}
	n, err := r.w.Write(r.buf)
	r.size += int64(n)
	if !r.check(err) {
		r.dropped()
	}
}

// check turns an error into the broken state, logged once.
func (r *recordFile) check(err error) bool {
	if err == nil {
		r.broken = false
		return true
	}
	if !r.broken {
		r.log.Error().Err(err).Str("file", r.path).Msg("record file: cannot write, records are dropped")
	}
	r.broken, r.retry = true, time.Now().Add(10*time.Second)
	if r.f != nil {
		_ = r.f.Close()
		r.f = nil
	}
	return false
}

// rotate renames FILE to FILE.1, FILE.1 to FILE.2, … and begins anew.
func (r *recordFile) rotate() error {
	if err := r.w.Flush(); err != nil {
		return err
	}
	if err := r.f.Close(); err != nil {
		return err
	}
	r.f = nil
	for i := r.keep; i > 0; i-- {
		from := r.path
		if i > 1 {
			from = fmt.Sprintf("%s.%d", r.path, i-1)
		}
		if err := os.Rename(from, fmt.Sprintf("%s.%d", r.path, i)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return r.open()
}

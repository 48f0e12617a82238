package stamp_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/streamgauge/streamgauge/stamp"
)

// A dialed connection tells when the bytes of each read arrived. Here the
// network is a pipe, so the stamps are the user's.
func ExampleDialer() {
	d := stamp.Dialer{Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			server.Write([]byte("token"))
			server.Close()
		}()
		return client, nil
	}}
	begin := stamp.Now()
	c, err := d.DialContext(context.Background(), "engine:80")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	buf := make([]byte, 64)
	n, err := c.Read(buf)
	if err != nil {
		log.Fatal(err)
	}
	at, src := c.Stamp()
	fmt.Printf("%s %v %v\n", buf[:n], src, at.Sub(begin) > 0)
	// Output: token user true
}

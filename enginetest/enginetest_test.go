package enginetest

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// fakeVar makes the test binary act as an engine, in the way that its value says.
const fakeVar = "ENGINETEST_FAKE"

func TestMain(m *testing.M) {
	if how := os.Getenv(fakeVar); how != "" {
		fakeEngine(how)
		return
	}
	goleak.VerifyTestMain(m)
}

// fakeEngine listens on the address in its first argument. It says 503 to the
// first two health checks, as an engine that loads its model does.
func fakeEngine(how string) {
	fmt.Println("fake engine:", how)
	switch how {
	case "broken":
		fmt.Println("cannot load the model")
		os.Exit(3)
	case "done":
		return
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	}
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(4)
	}
	var asked atomic.Int32
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if how == "loading" || asked.Add(1) <= 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
}

// fakeRecipe runs fakeEngine.
func fakeRecipe(t *testing.T, how string) recipe {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return recipe{
		version: "1",
		id:      "fake recipe 1",
		command: func(_ Engine, o Options) (argv, env []string) {
			return []string{exe, fmt.Sprintf("127.0.0.1:%d", o.Port)}, []string{fakeVar + "=" + how}
		},
	}
}

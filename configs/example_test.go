package configs_test

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/streamgauge/streamgauge/configs"
)

// All that is wrong is told at once.
func ExampleLoadLoadgen() {
	fs := pflag.NewFlagSet("loadgen", pflag.ContinueOnError)
	configs.Register(fs, configs.LoadgenKeys())
	if err := fs.Parse([]string{"--url=localhost:8000", "--duration=30", "--concurrency=0,1"}); err != nil {
		fmt.Println(err)
		return
	}
	_, _, err := configs.LoadLoadgen(fs)
	fmt.Println(err)
	// Output:
	// --url: the address of a server starts with http:// or https://, for example http://127.0.0.1:8000
	// --concurrency: "0" is below 1
	// --duration: 30 has no unit: write 30s for seconds
}

func ExampleParseContexts() {
	contexts, err := configs.ParseContexts("8k,256K,0,8192,max")
	fmt.Println(contexts, err)
	// Output:
	// [8192 262144 0 -1] <nil>
}

package proxy

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

var allFaults = []fault{faultConnect, faultClosed, faultResponse, faultPoolFull, faultDraining, faultHeaderWait,
	faultTooLarge, faultHeaderSize, faultRequest, faultSlow, faultMethod, faultInternal}

// TestFaultsAreDocumented holds the failure table of docs/proxy.md to the code.
func TestFaultsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/proxy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range allFaults {
		if want := fmt.Sprintf("| %d `%s`", f.status, f.reason); !strings.Contains(string(page), want) {
			t.Errorf("docs/proxy.md has no row with %q", want)
		}
	}
}

func TestFaultBodies(t *testing.T) {
	for _, f := range allFaults {
		var body struct {
			Error struct {
				Message, Type, Code string
				Param               *string
			}
		}
		if err := json.Unmarshal(f.body(), &body); err != nil {
			t.Errorf("%s: %v", f.reason, err)
			continue
		}
		if body.Error.Code != f.reason || body.Error.Message == "" || body.Error.Type == "" {
			t.Errorf("%s: got %s, want OpenAI's error shape", f.reason, f.body())
		}
	}
}

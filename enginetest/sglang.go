package enginetest

import "errors"

var sglangRecipe = recipe{
	version:   "0.5.23",
	id:        "sglang recipe 0",
	needBytes: 2_000_000_000,
	install:   func(*installer) error { return errors.New("no recipe yet") },
	command:   func(Engine, Options) (argv, env []string) { return nil, nil },
}

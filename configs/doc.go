// Package configs holds the settings of both programs.
//
//  1. One table (Keys) describes every setting: its name, type, default and one
//     line of help. A flag is --name, the key of the YAML file is name, the
//     variable is STREAMGAUGE_NAME with - as _.
//  2. Register makes flags from the table. They keep text; nothing is parsed
//     while flags are read, so that one mistake does not hide the next.
//  3. LoadProxy and LoadLoadgen merge flag > variable > file > default through
//     viper, refuse keys of the file that the table does not have, parse every
//     text by its type and fill the fields tagged with the keys' names.
//  4. All mistakes are reported together, a sentence each.
//  5. docs/configuration.md, proxy.yaml and loadgen.yaml are written from the
//     same table (go test ./configs -update), so help, docs and files agree.
package configs

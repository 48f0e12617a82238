// Package tinymodel makes a language model that says what a test tells it to,
// small enough to be written in milliseconds and run by real engines.
//
//  1. newVocab lays out a byte-level BPE vocabulary in which every word that the
//     model can say, with its leading space, is one token.
//  2. Loop sets weights so that the next token depends on the last one only: the
//     attention and feed-forward parts add zero, the embedding of a token is a
//     one-hot vector or two, and rows of the output matrix pick the successors.
//  3. GGUF and Safetensors lay the same weights out for llama.cpp and for vLLM;
//     WriteHF adds the config and tokenizer files that vLLM wants beside them.
//
// The last word of the prompt picks the behaviour:
//
//	loop      the same eight words round and round
//	stutter   one word for ever
//	longloop  the same sixty words round and round
//	emoji     ten single bytes round and round, so that é, 漢 and 😀 each
//	          arrive split over two, three and four tokens
//	story     a hundred different words, then the end of the stream
//	drift     random words, which fall into the eight-word loop after 150
//	          tokens on average
//
// Any other word gives random words without end. Endless and drift need a
// temperature above 0; greedy sampling turns the first into a cycle of two
// hundred words and the second into the loop at once. All hold under the default
// samplers of llama.cpp (top-k 40, top-p 0.95, min-p 0.05) and of vLLM (none).
//
// Every byte written is a function of this package's source only; tests hold the
// digests.
package tinymodel

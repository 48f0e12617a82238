package wire

import "strconv"

// Dialect is a streaming protocol of an inference server.
type Dialect uint8

const (
	// Unknown is a body whose meaning is not known; it is not decoded.
	Unknown Dialect = iota
	// Chat is OpenAI's /v1/chat/completions.
	Chat
	// Completions is OpenAI's legacy /v1/completions.
	Completions
	// Messages is Anthropic's /v1/messages.
	Messages
	// Responses is OpenAI's /v1/responses.
	Responses
	// Ollama is its /api/chat and /api/generate: one JSON value a line.
	Ollama
)

// Channel is the kind of output a text belongs to. Values from Tool0 on are the
// arguments of tool call 0, 1, …
type Channel uint8

const (
	Content   Channel = iota // delta.content, message.content, text, response
	Reasoning                // reasoning_content, reasoning, thinking
	Refusal                  // delta.refusal
	Tool0                    // tool_calls[].function.{name,arguments}; Tool0+n for index n; elsewhere in order of beginning
)

// maxTool is the highest tool call index that has a channel of its own.
const maxTool = 200

// toolChannel is the channel of tool call i; calls beyond maxTool share one.
func toolChannel(i int) Channel {
	if i < 0 || i > maxTool {
		i = maxTool
	}
	return Tool0 + Channel(i)
}

// String returns the word used in records: content, reasoning, refusal, tool:N.
func (c Channel) String() string {
	switch c {
	case Content:
		return "content"
	case Reasoning:
		return "reasoning"
	case Refusal:
		return "refusal"
	}
	return "tool:" + strconv.Itoa(int(c-Tool0))
}

// Kind says what an event is.
type Kind uint8

const (
	Data      Kind = iota // a JSON chunk
	Done                  // the dialect's terminal marker; of Responses and Ollama it is a chunk as well
	Failure               // an error object inside the stream
	Malformed             // a payload that is not one JSON value, or over the size limit
)

// None marks a count that the event does not carry.
const None = -1

// Event is one complete event of a body. It and everything it points to belong
// to the Decoder and are valid until its next call.
type Event struct {
	Kind    Kind
	Size    int // payload bytes; of a bare value over the size limit, the limit + 1
	ID      []byte
	Model   []byte
	Choices []Choice
	Usage   Usage  // Usage.Has is false when the event carries none
	Native  Native // llama.cpp timings; Native.Has likewise
	Error   Error  // set when Kind is Failure
	// Unterminated: the body ended without the blank line that closes an event.
	Unterminated bool
}

// Choice is what an event says of one choice.
type Choice struct {
	Index    int
	Parts    []Part // non-empty texts only
	TokenIDs int    // entries in token_ids / output_ids, or None
	Logprobs int    // logprob entries, or None
	Finish   []byte // finish_reason, in the words of chat; nil when absent, null or ""
	Stop     []byte // stop_reason when it is a string, for example repetition_detected; of Messages the source of Finish
}

// Part is a piece of text of one channel, unescaped (invalid escapes and lone
// surrogates are kept as they stand).
type Part struct {
	Channel Channel
	Name    bool // Text is the name of the function, not its arguments
	Text    []byte
}

// Usage is a usage object, or what stands for one. Counts that it lacks are None.
// PromptTokens holds the cached ones in every dialect.
type Usage struct {
	Has              bool
	PromptTokens     int
	CompletionTokens int
	CachedTokens     int
	ReasoningTokens  int
}

// Native holds llama.cpp's timings object. Counts that it lacks are None.
type Native struct {
	Has        bool
	PredictedN int
	PromptN    int
	CacheN     int
}

// Error is an error object, whatever its shape. Message may quote the
// request: it is for records that may store text, never for labels.
type Error struct {
	Type    string
	Code    string
	Message string
}

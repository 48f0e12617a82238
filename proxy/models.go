package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"time"

	"github.com/streamgauge/streamgauge/upstream"
)

// maxModelList bounds the body of a models answer.
const maxModelList = 4 << 20

// retryModels is the wait after an upstream could not be asked.
const retryModels = 5 * time.Second

// refreshModels keeps the list of served models, the only model names that may
// be label values, until ctx ends.
func (p *Proxy) refreshModels(ctx context.Context) {
	served := map[*backend][]string{}
	away := map[*backend]bool{} // those that could not be reached, and were told of
	for {
		wait := p.cfg.ModelsEvery
		for _, b := range p.backends {
			models, err := p.listModels(ctx, b)
			if ctx.Err() != nil {
				return
			}
			var silent *upstream.Error
			switch lost := errors.As(err, &silent) && !errors.Is(err, upstream.ErrNoFreeConns); {
			case lost && !away[b]:
				p.log.Warn().Err(err).Str("upstream", b.name).Msg("upstream does not answer")
				away[b] = true
			case !lost && away[b]:
				p.log.Info().Str("upstream", b.name).Msg("upstream answers")
				away[b] = false
			}
			if err != nil {
				// The last list stands: an engine that restarts serves the
				// same names most of the time.
				p.log.Debug().Err(err).Str("upstream", b.name).Msg("models not listed")
				wait = min(wait, retryModels)
				continue
			}
			names := make([]string, 0, len(models))
			for _, m := range models {
				names = append(names, m.ID)
			}
			served[b] = names
			b.served.Store(&models)
		}
		p.metrics.SetModels(mergeModels(p.cfg.Models, served))
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-p.doubt:
			// Nothing may be sent to a proxy that is not ready, so no request
			// would find out that the upstream is back.
			select {
			case <-ctx.Done():
				return
			case <-time.After(retryModels):
			}
		}
	}
}

func mergeModels(fixed []string, served map[*backend][]string) []string {
	var dynamic []string
	for _, names := range served {
		dynamic = append(dynamic, names...)
	}
	sort.Strings(dynamic)
	return append(append([]string(nil), fixed...), dynamic...)
}

// ServedModel is what an upstream says of a model. Engines name themselves in
// owned_by.
type ServedModel struct {
	ID          string `json:"id"`
	OwnedBy     string `json:"owned_by"`
	MaxModelLen int    `json:"max_model_len"` // 0: not told
}

// parseModels reads the answer of GET /v1/models.
func parseModels(r io.Reader) ([]ServedModel, error) {
	var list struct {
		Data []ServedModel `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(r, maxModelList)).Decode(&list); err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	return list.Data, nil
}

// listModels asks one upstream for the models it serves. Like a request's, its
// answer or failure counts for the upstream's state.
func (p *Proxy) listModels(ctx context.Context, b *backend) ([]ServedModel, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req := upstream.Request{Target: []byte(b.prefix + "/v1/models")}
	if p.cfg.ModelsKey != "" {
		req.Header = []upstream.Field{{Name: []byte("Authorization"), Value: []byte("Bearer " + p.cfg.ModelsKey)}}
	}
	r, err := b.client.Do(ctx, &req)
	if err != nil {
		// An engine may be too busy to answer this in time, and its streams well.
		if ctx.Err() == nil && !upstream.IsTimeout(err) && !errors.Is(err, upstream.ErrNoFreeConns) {
			b.failed()
		}
		return nil, err
	}
	defer func() { _ = r.Close() }()
	if !b.probed || !b.ejected() { // else its health path has the word
		b.answered()
	}
	if r.Status != 200 {
		return nil, fmt.Errorf("models: status %d", r.Status)
	}
	return parseModels(r)
}

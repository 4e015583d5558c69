// Command elasticlow asks through go-elasticsearch's functions for each path and its transport.
package main

import (
	"net/url"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"

	"rmreplay/tools/searchclients/client"
	"rmreplay/tools/searchclients/elasticapi"
)

func main() {
	client.Main(func(address string) (client.Client, error) {
		u, err := url.Parse(address)
		if err != nil {
			return nil, err
		}
		transport, err := elastictransport.New(elastictransport.Config{URLs: []*url.URL{u}, DisableRetry: true, CompressRequestBody: true})
		return elasticapi.Client{Transport: transport}, err
	})
}

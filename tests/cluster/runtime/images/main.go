// A read-only image registry for the test cluster.
//
//	images ADDRESS DIRECTORY
//
// serves each DIRECTORY/NAME/TAG.tar, a root file system, as the image NAME:TAG with that one layer. What else the
// image says, such as its command, is in TAG.json beside it, in the terms of the OCI image configuration. Every other
// name is answered with 404, as a registry does, so that a pod's ErrImagePull is a real one.
package main

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: images ADDRESS DIRECTORY")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func serve(address, directory string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	var filled atomic.Bool
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		if filled.Load() && !reads {
			http.Error(w, "this registry is read-only", http.StatusMethodNotAllowed)
			return
		}
		store.ServeHTTP(w, r)
	})
	served := make(chan error, 1)
	go func() { served <- http.Serve(listener, handler) }()
	if err := fill(listener.Addr().String(), directory); err != nil {
		return err
	}
	filled.Store(true)
	return <-served
}

func fill(address, directory string) error {
	return filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".tar" {
			return err
		}
		repository, err := filepath.Rel(directory, filepath.Dir(path))
		if err != nil {
			return err
		}
		tag := strings.TrimSuffix(entry.Name(), ".tar")
		reference, err := name.NewTag(fmt.Sprintf("%s/%s:%s", address, repository, tag), name.Insecure)
		if err != nil {
			return err
		}
		image, err := image(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		log.Printf("serving %s:%s", repository, tag)
		return remote.Write(reference, image)
	})
}

func image(path string) (v1.Image, error) {
	layer, err := tarball.LayerFromFile(path, tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		return nil, err
	}
	bare, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: "amd64"})
	if err != nil {
		return nil, err
	}
	whole, err := mutate.AppendLayers(bare, layer)
	if err != nil {
		return nil, err
	}
	config := v1.Config{Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}
	text, err := os.ReadFile(strings.TrimSuffix(path, ".tar") + ".json")
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return mutate.Config(whole, config)
}

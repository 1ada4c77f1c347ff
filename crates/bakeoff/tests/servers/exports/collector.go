// Command collector is an OpenTelemetry collector that receives metrics over HTTP and writes them to a file, for tests of bakeoff.
package main

import (
	"log"
	"os"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

func main() {
	factories := func() (otelcol.Factories, error) {
		receiving, exporting := otlpreceiver.NewFactory(), fileexporter.NewFactory()
		return otelcol.Factories{
			Receivers: map[component.Type]receiver.Factory{receiving.Type(): receiving},
			Exporters: map[component.Type]exporter.Factory{exporting.Type(): exporting},
			Telemetry: otelconftelemetry.NewFactory(),
		}, nil
	}
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector", Description: "for tests", Version: "1"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			DefaultScheme:     "file",
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
		}},
	})
	command.SetArgs(os.Args[1:])
	if err := command.Execute(); err != nil {
		log.Fatal(err)
	}
}

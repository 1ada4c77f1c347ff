// The server's main package when Vault is built here from its Go module.
//
// With the build tag `minimal` Vault leaves out the clients of a dozen clouds, which take longer to
// build than the rest of it, and with them most storage backends, secrets engines and database
// plugins. This main puts back those that bakeoff compares or loads. The module itself is built as
// it was published: nothing in it is changed.
//
// Not here: every other command of Vault, which `command.Run` has.
package main

import (
	"fmt"
	"os"
	"reflect"

	"github.com/hashicorp/cli"
	databaseRedis "github.com/hashicorp/vault-plugin-database-redis"
	secretsKV "github.com/hashicorp/vault-plugin-secrets-kv"
	"github.com/hashicorp/vault/audit"
	secretsConsul "github.com/hashicorp/vault/builtin/logical/consul"
	secretsDatabase "github.com/hashicorp/vault/builtin/logical/database"
	secretsRabbitMQ "github.com/hashicorp/vault/builtin/logical/rabbitmq"
	"github.com/hashicorp/vault/builtin/plugin"
	"github.com/hashicorp/vault/command"
	"github.com/hashicorp/vault/helper/builtinplugins"
	storageConsul "github.com/hashicorp/vault/physical/consul"
	storageDynamoDB "github.com/hashicorp/vault/physical/dynamodb"
	storageGCS "github.com/hashicorp/vault/physical/gcs"
	storagePostgreSQL "github.com/hashicorp/vault/physical/postgresql"
	storageRaft "github.com/hashicorp/vault/physical/raft"
	databaseMySQL "github.com/hashicorp/vault/plugins/database/mysql"
	databasePostgreSQL "github.com/hashicorp/vault/plugins/database/postgresql"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical"
	storageFile "github.com/hashicorp/vault/sdk/physical/file"
	storageInmem "github.com/hashicorp/vault/sdk/physical/inmem"
	"github.com/hashicorp/vault/serviceregistration"
	registrationConsul "github.com/hashicorp/vault/serviceregistration/consul"
)

func main() {
	arguments := os.Args[1:]
	if len(arguments) == 0 || arguments[0] != "server" {
		os.Exit(command.Run(arguments))
	}
	os.Exit(server().Run(arguments[1:]))
}

func server() *command.ServerCommand {
	putBack()
	ui := &cli.BasicUi{Reader: os.Stdin, Writer: os.Stdout, ErrorWriter: os.Stderr}
	return &command.ServerCommand{
		BaseCommand: &command.BaseCommand{UI: &command.VaultUI{Ui: ui}},
		AuditBackends: map[string]audit.Factory{
			"file":   audit.NewFileBackend,
			"socket": audit.NewSocketBackend,
			"syslog": audit.NewSyslogBackend,
		},
		CredentialBackends: map[string]logical.Factory{"plugin": plugin.Factory},
		LogicalBackends: map[string]logical.Factory{
			"plugin":   plugin.Factory,
			"database": secretsDatabase.Factory,
			"kv":       secretsKV.Factory,
		},
		PhysicalBackends: map[string]physical.Factory{
			"consul":     storageConsul.NewConsulBackend,
			"dynamodb":   storageDynamoDB.NewDynamoDBBackend,
			"file":       storageFile.NewFileBackend,
			"gcs":        storageGCS.NewBackend,
			"inmem":      storageInmem.NewInmem,
			"inmem_ha":   storageInmem.NewInmemHA,
			"postgresql": storagePostgreSQL.NewPostgreSQLBackend,
			"raft":       storageRaft.NewRaftBackend,
		},
		ServiceRegistrations: map[string]serviceregistration.Factory{
			"consul": registrationConsul.NewServiceRegistration,
		},
		ShutdownCh: command.MakeShutdownCh(),
		SighupCh:   command.MakeSighupCh(),
		SigUSR2Ch:  command.MakeSigUSR2Ch(),
	}
}

// putBack adds to the list of built-in plugins, as the build without `minimal` does.
func putBack() {
	add("logicalBackends", "consul", logical.Factory(secretsConsul.Factory))
	add("logicalBackends", "rabbitmq", logical.Factory(secretsRabbitMQ.Factory))
	mysql := databaseMySQL.New
	add("databasePlugins", "mysql-database-plugin",
		builtinplugins.BuiltinFactory(mysql(databaseMySQL.DefaultUserNameTemplate)))
	for _, name := range []string{"aurora", "rds", "legacy"} {
		add("databasePlugins", "mysql-"+name+"-database-plugin",
			builtinplugins.BuiltinFactory(mysql(databaseMySQL.DefaultLegacyUserNameTemplate)))
	}
	add("databasePlugins", "postgresql-database-plugin",
		builtinplugins.BuiltinFactory(databasePostgreSQL.New))
	add("databasePlugins", "redis-database-plugin", builtinplugins.BuiltinFactory(databaseRedis.New))
}

// add writes an entry into one of the registry's maps. The registry's type and fields are not
// exported, and Vault has no other way in, so they are found by name; a version that names them
// otherwise ends here and not later with an engine that cannot be enabled.
func add(table, name string, factory any) {
	entries := reflect.ValueOf(builtinplugins.Registry).Elem().FieldByName(table)
	if entries.Kind() != reflect.Map || entries.IsNil() {
		fmt.Fprintf(os.Stderr, "this version of Vault keeps its built-in plugins elsewhere: no `%s`\n", table)
		os.Exit(70)
	}
	entries = reflect.NewAt(entries.Type(), entries.Addr().UnsafePointer()).Elem()
	entry := reflect.New(entries.Type().Elem()).Elem()
	entry.FieldByName("Factory").Set(reflect.ValueOf(factory))
	entries.SetMapIndex(reflect.ValueOf(name), entry)
}

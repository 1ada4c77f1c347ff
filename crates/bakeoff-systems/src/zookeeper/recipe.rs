//! Where ZooKeeper comes from.
//!
//! Maven's 3.9 is first because it is newer than Debian 12's 3.8 and nearly as quick; a machine
//! with a Java runtime and nothing else still gets the official archive or Debian's jars.

use bakeoff_install::{Algorithm, Libraries, Member, Pin, Recipe, Shape, Source};

/// How ZooKeeper can be had.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "zookeeper",
    shape: Shape::Java {
        main_class: "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        version_class: "org.apache.zookeeper.version.VersionInfoMain",
        java_major_min: 11,
    },
    sources: &[
        Source::Maven {
            // The middle two are `provided` in ZooKeeper's own description and needed nonetheless.
            // The last one logs to standard error as Debian's does; without it there is no log.
            artifacts: &[
                "org.apache.zookeeper:zookeeper:{version}",
                "org.xerial.snappy:snappy-java:1.1.10.5",
                "io.dropwizard.metrics:metrics-core:4.1.12.1",
                "org.slf4j:slf4j-simple:1.7.30",
            ],
            versions: &["3.9.3"],
            pins: &[Pin::of_all(
                "3.9.3",
                "042b41710ee8d9a158b495680dbf66e88aec9b074faabc7b89f66e93cd23a575",
            )],
        },
        Source::Archive {
            url: "https://archive.apache.org/dist/zookeeper/zookeeper-{version}/apache-zookeeper-{version}-bin.tar.gz",
            checksums: "https://archive.apache.org/dist/zookeeper/zookeeper-{version}/apache-zookeeper-{version}-bin.tar.gz.sha512",
            algorithm: Algorithm::Sha512,
            member: Member::Jars("apache-zookeeper-{version}-bin/lib"),
            versions: &["3.9.3"],
            pins: &[Pin::of_all(
                "3.9.3",
                "d44d870c1691662efbf1a8baf1859c901b820dc5ff163b36e81beb27b6fbf3cd31b5f1f075697edaaf6d3e7a4cb0cc92f924dcff64b294ef13d535589bdaf143",
            )],
        },
        Source::Debian {
            packages: &[
                "libzookeeper-java",
                "libnetty-java",
                "libslf4j-java",
                "libsnappy-java",
                "libdropwizard-metrics-java",
                "libcommons-io-java",
            ],
            // ZooKeeper's own jar is last: its manifest names jars of the machine by absolute path,
            // and ours are to be found before them. `slf4j-simple` logs to standard error.
            files: &[
                "usr/share/java/zookeeper-jute.jar",
                "usr/share/java/netty-buffer.jar",
                "usr/share/java/netty-codec.jar",
                "usr/share/java/netty-common.jar",
                "usr/share/java/netty-handler.jar",
                "usr/share/java/netty-resolver.jar",
                "usr/share/java/netty-transport.jar",
                "usr/share/java/netty-transport-native-epoll.jar",
                "usr/share/java/netty-transport-native-unix-common.jar",
                "usr/share/java/slf4j-api.jar",
                "usr/share/java/slf4j-simple.jar",
                "usr/share/java/snappy-java.jar",
                "usr/share/java/metrics-core.jar",
                "usr/share/java/commons-io.jar",
                "usr/share/java/zookeeper.jar",
            ],
            series: &[],
            libraries: Libraries::Named,
        },
    ],
};

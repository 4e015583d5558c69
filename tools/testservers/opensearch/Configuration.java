import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;

/** The configuration of a node for the arguments DIRECTORY PORT [SETTING=VALUE...]. */
final class Configuration {
    private Configuration() {
    }

    static Environment of(String[] args) {
        Settings.Builder settings = Settings.builder()
            .put("path.home", args[0])
            .put("cluster.name", "rmreplay-tests")
            .put("node.name", "one")
            .put("node.processors", 2)
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("transport.port", 0)
            .put("http.port", args[1])
            // Allow a disk that is fuller than OpenSearch's watermarks, as on machines that run tests.
            .put("cluster.routing.allocation.disk.threshold_enabled", false);
        for (String setting : List.of(args).subList(2, args.length)) {
            int equals = setting.indexOf('=');
            settings.put(setting.substring(0, equals), setting.substring(equals + 1));
        }
        return InternalSettingsPreparer.prepareEnvironment(settings.build(), Map.of(), null, () -> "one");
    }
}

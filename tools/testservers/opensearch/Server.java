import java.util.List;
import java.util.Map;
import org.opensearch.analysis.common.CommonAnalysisPlugin;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.painless.PainlessPlugin;
import org.opensearch.transport.Netty4Plugin;

/** A cluster of one node on the loopback address: Server DIRECTORY PORT [SETTING=VALUE...]. */
public final class Server extends Node {
    private Server(Environment environment) {
        super(environment, List.of(Netty4Plugin.class, CommonAnalysisPlugin.class, PainlessPlugin.class), true);
    }

    public static void main(String[] args) throws Exception {
        Lifeline.hold();
        Settings.Builder settings = Settings.builder()
            .put("path.home", args[0])
            .put("cluster.name", "rmreplay-tests")
            .put("node.name", "one")
            .put("node.processors", 2)
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("transport.port", 0)
            .put("http.port", args[1])
            // The disk of a machine that runs tests may be fuller than a cluster wants it.
            .put("cluster.routing.allocation.disk.threshold_enabled", false);
        for (String setting : List.of(args).subList(2, args.length)) {
            int equals = setting.indexOf('=');
            settings.put(setting.substring(0, equals), setting.substring(equals + 1));
        }
        Server server = new Server(InternalSettingsPreparer.prepareEnvironment(
            settings.build(), Map.of(), null, () -> "one"));
        server.start();
        Thread.currentThread().join();
    }
}

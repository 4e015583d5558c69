import java.util.List;
import java.util.stream.Stream;
import org.opensearch.Version;
import org.opensearch.analysis.common.CommonAnalysisModulePlugin;
import org.opensearch.env.Environment;
import org.opensearch.node.Node;
import org.opensearch.painless.PainlessModulePlugin;
import org.opensearch.plugins.PluginInfo;
import org.opensearch.transport.Netty4ModulePlugin;

/** A node of OpenSearch 3 on the loopback address: Server DIRECTORY PORT [SETTING=VALUE...]. */
public final class Server extends Node {
    private Server(Environment environment) {
        super(environment, Stream.of(Netty4ModulePlugin.class, CommonAnalysisModulePlugin.class, PainlessModulePlugin.class)
            .map(plugin -> new PluginInfo(plugin.getName(), "of a test", "1", Version.CURRENT, "21", plugin.getName(), null,
                List.of(), false)).toList(), true);
    }

    public static void main(String[] args) throws Exception {
        Lifeline.hold();
        new Server(Configuration.of(args)).start();
        Thread.currentThread().join();
    }
}
